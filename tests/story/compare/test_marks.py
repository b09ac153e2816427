"""Marks: which steps are outlined for a difference or a failure, and what is said of each."""

from dataclasses import replace

import pytest
from changed_traces import break_off
from recorded import recorded
from small_traces import record, small_trace, step

from xray.ir.records import MaskFacts
from xray.ir.trace import Pass, Trace
from xray.story.compare.difference import diff
from xray.story.compare.marks import mark_changes, mark_failures


def compare(before, after):
    return mark_changes(diff(before, after), after)


def change_step(trace, step_id, change):
    first, *others = trace.passes
    steps = [change(step) if step.id == step_id else step for step in first.steps]
    return replace(trace, passes=(replace(first, steps=tuple(step for step in steps if step is not None)), *others))


def change_output(trace, step_id, **values):
    return change_step(trace, step_id, lambda step: replace(step, outputs=(replace(step.outputs[0], **values),)))


def test_equal_traces_have_no_marks():
    marks = compare(small_trace(), small_trace())

    assert (marks.heading, marks.steps, marks.notes) == ("NO DIFFERENCE", (), ())


def test_a_changed_shape_shows_both_with_the_axis_marked():
    (mark,) = compare(small_trace(), change_output(small_trace(), "head#0", shape=(2, 7, 23))).steps

    assert (mark.kind, mark.step) == ("training", "head#0")
    assert [(operand.name, operand.sizes, operand.wrong) for operand in mark.operands] == [
        ("logits was", (2, 7, 19), (2,)),
        ("is", (2, 7, 23), (2,)),
    ]


def test_a_block_gives_way_to_what_changed_inside_it():
    after = change_output(small_trace(), "encoder.layers.0.self_attention.query#0", shape=(2, 5, 31))
    after = change_output(after, "encoder.layers.0.self_attention#0", shape=(2, 5, 31))

    assert [mark.step for mark in compare(small_trace(), after).steps] == ["encoder.layers.0.self_attention.query#0"]


def test_the_same_change_in_every_turn_is_one_mark():
    trace = small_trace()
    passes = tuple(
        replace(one, steps=tuple(replace(s, outputs=()) if s.path == "head" else s for s in one.steps))
        if one.kind == "decode"
        else one
        for one in trace.passes
    )
    (mark,) = compare(trace, replace(trace, passes=passes)).steps

    assert (mark.number, mark.text) == (1, "has other inputs or outputs, in 3 turns")


def test_a_changed_mask_is_told_in_words():
    after = change_output(small_trace(), "src_mask#0", mask=MaskFacts("none", 0.0))

    assert compare(small_trace(), after).steps[0].text == "mask: padding, 10.0% hidden, now none, 0.0% hidden"


def test_a_missing_step_is_said_since_it_cannot_be_outlined():
    marks = compare(small_trace(), change_step(small_trace(), "src_mask#0", lambda _: None))

    assert marks.notes == ("No longer there: src_mask#0",)


def test_a_new_step_is_outlined():
    marks = compare(change_step(small_trace(), "head#0", lambda _: None), small_trace())

    assert [(mark.step, mark.text) for mark in marks.steps] == [("head#0", "is new")]


def test_passes_on_one_side_only_are_said():
    trace = small_trace()
    training = replace(trace, passes=trace.passes[:1])

    assert compare(trace, training).notes == ("Passes no longer there: encode, decode 1, decode 2, decode 3",)


def test_a_whole_trace_has_no_failure():
    assert mark_failures(small_trace()) is None


def test_the_innermost_step_that_failed_is_marked():
    trace = break_off(
        recorded("one layer, training"),
        "decoder.layers.0.feed_forward.contract#0",
        "RuntimeError: no",
        settings={"in_features": 64, "out_features": 32},
    )
    marks = mark_failures(trace)

    assert [mark.step for mark in marks.steps] == ["decoder.layers.0.feed_forward.contract#0"]
    assert marks.steps[0].text == "the last axis has to be as wide as the layer reads: 128, but the weights are for 64"
    assert marks.notes == ("RuntimeError: no",)


@pytest.mark.parametrize("error", ["\x1b[31mred", "two\nlines"])
def test_what_was_raised_stands_on_one_harmless_line(error):
    failed = step("net", "odd", [record("x", "batch d_k")], error=error)
    (note,) = mark_failures(Trace("net", {}, {}, (Pass("forward", 0, {}, (failed,)),))).notes

    assert note.isprintable()


def test_a_renamed_step_is_marked_with_both_names():
    steps = [step("net", "net"), step("net.narrow", "linear", parent="net")]
    after = [steps[0], step("net.thin", "linear", parent="net")]
    traces = [Trace("t", {}, {}, (Pass("forward", 0, {}, tuple(each)),)) for each in (steps, after)]

    (mark,) = compare(*traces).steps

    assert (mark.step, mark.text) == ("net.thin#0", "name: net.narrow, now net.thin")
