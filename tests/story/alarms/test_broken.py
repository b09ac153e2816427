from dataclasses import replace

import pytest
from small_blocks import call, forward, tensor

from xray.ir.records import MaskFacts, Preview, Statistics
from xray.ir.trace import Trace
from xray.story.alarms.whole import find_alarms


def hiding(*cells, value=-1e9, weighs=True, heads=1, **facts):
    """An attention in which scores are hidden by a mask of these cells; without `weighs` nothing is made of them."""
    mask = MaskFacts("padding", 0.5, "true_is_hidden", tuple(cells) or None, **facts)
    shape = (heads, 2, 3)
    scores = call("net.scores", "matmul", ["", ""], shape)
    hide = call("net.hide", "masked_fill", [scores.id], shape, location="model.py:7")
    record = tensor("mask", (1, 2, 3), role="mask", dtype="bool", mask=mask)
    hide = replace(hide, inputs=(*hide.inputs, record), settings={"value": value})
    weights = call("net.softmax", "softmax", [hide.id], shape)
    out = call("net.out", "matmul", [weights.id, ""], shape)
    steps = (scores, hide, weights, out) if weighs else (scores, hide)
    return Trace("t", {}, {}, (forward(*steps),))


def test_a_row_that_sees_nothing_raises_an_alarm():
    (alarm,) = find_alarms(hiding(("..p", "ppp")))
    assert (alarm.kind, alarm.step, alarm.location) == ("blind", "net.hide#0", "model.py:7")
    assert alarm.text.startswith("1 of the 2 rows of the scores (1, 2, 3) see nothing")


def test_the_rows_of_a_mask_that_several_heads_share_are_counted_for_each():
    (alarm,) = find_alarms(hiding(("..p", "ppp"), heads=5))
    assert alarm.text.startswith("5 of the 10 rows of the scores (5, 2, 3) see nothing")


def test_hidden_cells_alone_raise_none():
    assert find_alarms(hiding((".pp", "..p"))) == ()


@pytest.mark.parametrize("value", [0.0, 0, 1.5])
def test_what_is_filled_with_a_number_that_hides_nothing_raises_none(value):
    assert find_alarms(hiding(("..p", "ppp"), value=value)) == ()


def test_a_mask_too_large_to_keep_raises_none():
    assert find_alarms(hiding(blind_rows=2)) == ()  # the rows may be those of padding, of which nothing comes


@pytest.mark.parametrize("facts", [{"blind_rows": 2}, {}])
def test_a_mask_that_hides_from_no_attention_raises_none(facts):
    assert find_alarms(hiding(*(() if facts else (("..p", "ppp"),)), weighs=False, **facts)) == ()


def test_the_same_blind_mask_is_told_once_though_every_turn_reads_it():
    trace = hiding(("ppp", "..."))
    second = replace(trace.passes[0], number=1)
    assert len(find_alarms(replace(trace, passes=(*trace.passes, second)))) == 1


def with_counts(path, sources, nans=0, infinities=0, op="div", role="activation", values=()):
    step = call(path, op, sources)
    statistics = Statistics(0.0, 1.0, 0.5, nans, infinities)
    preview = Preview((0, 0), (1, len(values)), values, statistics)
    return replace(step, outputs=(tensor("out", (2, 7), step.id, role=role, preview=preview),))


def test_nan_is_told_where_it_begins_and_not_where_it_goes_on():
    first = with_counts("a", [""])
    second = with_counts("b", [first.id], nans=3)
    third = with_counts("c", [second.id], nans=14)
    (alarm,) = find_alarms(Trace("t", {}, {}, (forward(first, second, third),)))
    assert (alarm.kind, alarm.step) == ("nan", "b#0")
    assert alarm.text == "3 of the 14 values that b makes are NaN, the first here"


def test_infinity_is_told():
    (alarm,) = find_alarms(Trace("t", {}, {}, (forward(with_counts("a", [""], infinities=1, values=("inf",))),)))
    assert alarm.text == "1 of the 14 values that a makes is infinite, the first here"


@pytest.mark.parametrize("role", ["mask", "activation"])
def test_minus_infinity_that_hides_is_meant(role):
    step = with_counts("a", [""], infinities=2, op="masked_fill", role=role, values=("-inf", 1.0))
    assert find_alarms(Trace("t", {}, {}, (forward(step),))) == ()


def test_a_sound_trace_has_no_alarms(both_trace):
    assert find_alarms(both_trace) == ()
