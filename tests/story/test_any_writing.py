"""Transformers in any hand-writing: nothing is said of them that is not true, be it that little is said."""

import pytest
import torch
from any_writing import CHOICES, PLAIN, VOCAB, Writing
from any_writing_settled import settle
from any_writing_sheet import list_chart_lies, list_sheet_lies
from any_writing_truth import list_anatomy_lies
from any_writing_whole import Whole, make_inputs
from hypothesis import given
from hypothesis import strategies as st
from trust.amount import cases

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

SOME = st.sets(st.sampled_from([*CHOICES]), max_size=9).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(CHOICES[name]) for name in sorted(names)})
)
"""Choices by name, of a few things that may be chosen; the others are the plainest."""


def record(how):
    """A transformer that is written so, and one forward pass of it."""
    torch.manual_seed(0)
    with torch.device(how.device), torch.no_grad():
        model = Whole(how).train(how.training)
        return model, xray.trace(model, *make_inputs(how))


def list_lies(how):
    """What is said falsely of a transformer that is written so."""
    model, trace = record(how)
    layout = compose_poster(trace, text_width)
    lies = list_anatomy_lies(how, model, xray.anatomy(trace))
    told = () if layout is None else list_sheet_lies(how, model, layout)
    return [*lies, *told, *list_chart_lies(how, model, read_columns(trace))]


def read_first(**choices):
    """The branches of the first layer, as its anatomy has them."""
    _, trace = record(settle(choices))
    return [branch for stage in xray.anatomy(trace).towers[0].groups[0].stages for branch in stage.branches]


@cases(100)
@given(choices=SOME)
def test_nothing_false_is_said_of_a_transformer_in_any_writing(choices):
    assert list_lies(settle(choices)) == []


PINS = (
    {"mask": "prefix"},
    {"mask": "prefix", "extra": "alibi"},
    {"mask": "prefix", "extra": "alibi", "hiding": "finfo"},
    {"curve": "relu squared by mul"},
    {"curve": "relu cubed"},
    {"projection": "each head"},
    {"projection": "each head", "softmax": "by hand"},
    {"projection": "each head", "softmax": "by hand less max", "mask": "prefix"},
    {"product": "sdpa", "extra": "alibi"},
    {"product": "sdpa", "extra": "alibi", "mask": "none"},
    {"product": "sdpa", "extra": "alibi", "hiding": "inf"},
    {"curve": "relu by clamp"},
    {"kind": "both", "layers": 1, "softmax": "by hand"},
    {"scale": "none", "extra": "alibi", "softmax": "by hand"},
    {"layout": "places first", "batch": 9},
    {"layout": "places first", "batch": 9, "sharing": 3, "grouping": "einsum"},
    {"layout": "places first", "length": 1},
    {"length": 1, "extra": "alibi"},
    {"length": 1, "extra": "alibi", "product": "sdpa"},
    {"token_shift": "both", "norm_place": "branch"},
    {"token_shift": "feed-forward", "norm_place": "both", "layer_scale": True},
    {"token_shift": "feed-forward", "feed_forward": "conv"},
)
"""Choices of which something false was said once."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("choices", PINS, ids=lambda choices: ", ".join(map(str, choices.values())))
def test_what_was_said_falsely_once_is_said_no_more(choices):
    assert list_lies(settle(choices)) == []


def test_heads_that_are_modules_of_their_own_are_counted():
    attention, _ = read_first(projection="each head")

    assert (attention.heads, attention.kv_heads, attention.d_k) == (PLAIN.heads, PLAIN.heads, PLAIN.head_width)


@pytest.mark.parametrize("hiding", ["masked_fill", "inf"])
def test_slopes_in_the_mask_of_a_kernel_are_places(hiding):
    attention, _ = read_first(product="sdpa", extra="alibi", hiding=hiding)

    assert (attention.positions, attention.causal) == ("alibi", True)


@pytest.mark.parametrize("hiding", ["finfo", "masked_fill"])
def test_masks_taken_off_scores_with_heads_last_hide_the_future(hiding):
    attention, _ = read_first(product="heads last", hiding=hiding)

    assert attention.causal is True


@pytest.mark.parametrize(("mask", "told"), [("causal", True), ("prefix", None), ("none", False)])
def test_a_given_mask_over_scores_with_heads_last_hides_what_its_cells_do(mask, told):
    attention, _ = read_first(product="heads last", mask_given=True, mask=mask)

    assert attention.causal is told


def test_a_relu_times_itself_is_squared():
    _, each = read_first(curve="relu squared by mul")

    assert each.activation == "relu squared"


@pytest.mark.parametrize("how", ["clamp", "maximum", "times"])
def test_a_relu_that_is_written_out_is_one(how):
    _, each = read_first(curve=f"relu by {how}")

    assert (each.part, each.activation) == ("feed_forward", "relu")


def test_an_unknown_sublayer_is_no_layer_of_its_own():
    attention, unknown = read_first(curve="square")

    assert (attention.part, unknown.part) == ("attention", "unknown")


@pytest.mark.parametrize("layout", ["batch first", "places first"])
def test_rows_of_a_table_that_an_index_picks_are_looked_up(layout):
    _, called = record(settle({"kind": "both", "layout": layout}))
    _, indexed = record(settle({"kind": "both", "layout": layout, "table": "indexed"}))

    assert {tower.vocab for tower in xray.anatomy(indexed).towers} == {VOCAB}
    assert xray.anatomy(indexed) == xray.anatomy(called)
    assert {one.passes[0].steps[-1].outputs[0].axes[-1] for one in (called, indexed)} == {"vocab"}


@pytest.mark.parametrize("softmax", ["by hand", "by hand less max"])
def test_heads_with_a_softmax_that_is_written_out_are_attention(softmax):
    attention, _ = read_first(projection="each head", softmax=softmax)

    assert (attention.part, attention.heads, attention.causal) == ("attention", PLAIN.heads, True)


def test_a_softmax_that_is_written_out_has_one_box():
    _, trace = record(settle({"softmax": "by hand less max"}))
    (box,) = [one for one in compose_poster(trace, text_width).boxes if one.id.endswith(".div#1")]

    assert "".join(run.text for run in box.lines[0]) == "SOFTMAX dim −1  written out"
    assert [one.rpartition(".")[2] for one in box.steps] == ["div#1", "amax#0", "sub#0", "exp#0", "sum#0"]


def test_a_writing_that_is_settled_stays_as_it_is():
    for name, values in CHOICES.items():
        for value in values:
            how = settle({name: value})
            assert settle(vars(how)) == how
            assert isinstance(how, Writing)
