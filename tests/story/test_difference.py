"""Two traces compared: the first thing that differs is named, and equal ones are equal."""

from dataclasses import replace

from xray.ir.records import MaskFacts
from xray.story.difference import diff


def change_step(trace, step_id, change):
    first, *others = trace.passes
    steps = tuple(change(step) if step.id == step_id else step for step in first.steps)
    return replace(trace, passes=(replace(first, steps=tuple(s for s in steps if s is not None)), *others))


def change_output(trace, step_id, **values):
    return change_step(trace, step_id, lambda step: replace(step, outputs=(replace(step.outputs[0], **values),)))


def test_a_trace_does_not_differ_from_itself(both_trace):
    assert not diff(both_trace, both_trace)


def test_two_runs_of_the_same_thing_do_not_differ(untrained_run, training_trace):
    assert diff(training_trace, untrained_run.trace("training")).changes == ()


def test_another_shape_is_named_with_both_records(training_trace):
    after = change_output(training_trace, "head#0", shape=(8, 14, 951))

    found = diff(training_trace, after)

    assert [(c.aspect, c.step, c.tensor, c.before.shape[2], c.after.shape[2]) for c in found.changes] == [
        ("shape", "head#0", "out", 950, 951)
    ]


def test_other_axis_words_are_a_difference(training_trace):
    after = change_output(training_trace, "head#0", axes=("batch", "src_len", "tgt_vocab"))

    assert diff(training_trace, after).first.aspect == "axes"


def test_another_mask_is_a_difference(training_trace):
    facts = MaskFacts("padding", 0.5, cells=None)

    assert diff(training_trace, change_output(training_trace, "src_mask#0", mask=facts)).first.aspect == "mask"


def test_missing_and_added_steps_are_told_apart(training_trace):
    after = change_step(training_trace, "shift#0", lambda _: None)

    assert [(c.aspect, c.step) for c in diff(training_trace, after).changes] == [("step missing", "shift#0")]
    assert [(c.aspect, c.step) for c in diff(after, training_trace).changes] == [("step added", "shift#0")]


def test_another_order_is_a_difference(training_trace):
    first = training_trace.passes[0]
    swapped = replace(
        training_trace, passes=(replace(first, steps=(first.steps[1], first.steps[0], *first.steps[2:])),)
    )

    assert [c.aspect for c in diff(training_trace, swapped).changes] == ["order"]


def test_a_pass_on_one_side_only_is_a_difference(both_trace, training_trace):
    assert (first := diff(training_trace, both_trace).first).aspect == "pass added"
    assert first.kind == "encode"
    assert diff(both_trace, training_trace).first.aspect == "pass missing"


def test_the_first_change_is_the_one_that_ran_first(training_trace):
    after = change_output(training_trace, "head#0", shape=(8, 14, 951))
    after = change_output(after, "encoder.embedding.words#0", shape=(8, 10, 31))

    assert diff(training_trace, after).first.step == "encoder.embedding.words#0"
