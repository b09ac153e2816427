"""Two traces compared: the first thing that differs is named, and equal ones are equal."""

from dataclasses import replace

import torch
from small_traces import record, step
from torch import nn

import xray
from xray.ir.records import MaskFacts
from xray.ir.trace import Pass, Trace
from xray.story.compare.changes import list_difference
from xray.story.compare.difference import diff


def change_step(trace, step_id, change):
    first, *others = trace.passes
    steps = tuple(change(step) if step.id == step_id else step for step in first.steps)
    return replace(trace, passes=(replace(first, steps=tuple(s for s in steps if s is not None)), *others))


def change_output(trace, step_id, **values):
    return change_step(trace, step_id, lambda step: replace(step, outputs=(replace(step.outputs[0], **values),)))


def test_a_trace_does_not_differ_from_itself(both_trace):
    assert not diff(both_trace, both_trace)


def test_two_runs_of_the_same_thing_do_not_differ(untrained_run):
    assert diff(untrained_run.trace("training"), untrained_run.trace("training")).changes == ()


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


class Block(nn.Module):
    def __init__(self, width=7):
        super().__init__()
        self.widen, self.narrow = nn.Linear(5, width), nn.Linear(width, 5)

    def forward(self, x):
        return x + self.narrow(torch.relu(self.widen(x)))


class Gated(Block):
    def forward(self, x):
        return x * self.narrow(torch.tanh(self.widen(x)))


class Stack(nn.Module):
    def __init__(self, blocks, name="blocks", *, doubled=False):
        super().__init__()
        self.name, self.doubled = name, doubled
        setattr(self, name, nn.ModuleList(blocks))

    def forward(self, x):
        for number, block in enumerate(getattr(self, self.name)):
            if self.doubled and number == 1:
                x = x + x
            x = block(x)
        return x


def stack(*blocks, name="blocks", doubled=False):
    return xray.trace(Stack(blocks, name, doubled=doubled), torch.ones(2, 5))


def outermost(before, after):
    return [(c.aspect, c.step) for c in diff(before, after).changes if not c.inside]


def told(before, after):
    return list(list_difference(diff(before, after), 40))


def test_a_layer_more_is_one_difference():
    before, after = stack(Block(), Block()), stack(Block(), Block(), Block())

    assert outermost(before, after) == [("step added", "blocks.2#0")]
    assert outermost(after, before) == [("step missing", "blocks.2#0")]


def test_the_steps_of_a_layer_more_are_all_among_those_that_changed():
    found = diff(stack(Block()), stack(Block(), Block()))

    assert {"blocks.1#0", "blocks.1.widen#0", "blocks.1.relu#0", "blocks.1.add#0"} <= found.steps


def test_a_layer_more_is_told_on_one_line_with_what_it_holds():
    assert told(stack(Block()), stack(Block(), Block()))[1:] == [
        "  forward: step added at blocks.1#0, with 4 steps inside"
    ]


def test_another_kind_of_layer_in_the_middle_moves_no_other():
    before, after = stack(Block(), Block()), stack(Block(), Gated(), Block())

    assert outermost(before, after) == [("step added", "blocks.1#0")]


def test_a_renamed_list_of_layers_is_one_rename():
    before, after = stack(Block(), Block(), Block()), stack(Block(), Block(), Block(), name="stages")

    assert told(before, after)[1:] == ["  forward: renamed, blocks.0 -> stages.0 (and 2 more like it)"]


def test_a_change_inside_a_renamed_layer_names_both_ids():
    changes = diff(stack(Block(7)), stack(Block(11), name="stages")).changes

    assert ("shape", "stages.0.widen#0", "blocks.0.widen#0") in [(c.aspect, c.step, c.was) for c in changes]


def test_one_operation_more_does_not_shift_the_others():
    assert outermost(stack(Block(), Block()), stack(Block(), Block(), doubled=True)) == [("step added", "Stack.add#0")]


def test_the_same_change_in_every_layer_has_one_line():
    lines = told(stack(Block(7), Block(7), Block(7)), stack(Block(11), Block(11), Block(11)))

    assert lines[1] == "  forward: shape at blocks.0.widen#0, out: 2x7 -> 2x11 (and 2 more like it)"


def test_what_only_hands_on_a_changed_tensor_is_not_told_again():
    assert [line.split(":")[1] for line in told(stack(Block(7)), stack(Block(11)))[1:]] == [
        " shape at blocks.0.widen#0, out",
        " shape at blocks.0.relu#0, out",
        " parameters at blocks.0.narrow#0",
    ]


def test_another_operation_under_the_same_name_is_told():
    x = torch.ones(2, 5)
    before = xray.trace(nn.Sequential(nn.Linear(5, 7), nn.ReLU()), x)
    after = xray.trace(nn.Sequential(nn.Linear(5, 7), nn.Tanh()), x)

    assert told(before, after)[1:] == ["  forward: operation at 1#0: relu -> tanh"]


def test_a_missing_bias_is_a_difference_of_parameters():
    x = torch.ones(2, 5)
    before, after = xray.trace(nn.Linear(5, 7), x), xray.trace(nn.Linear(5, 7, bias=False), x)

    assert told(before, after)[1:] == ["  forward: parameters at Linear#0: 42 -> 35"]


def test_a_model_that_was_wrapped_is_still_itself():
    x = torch.ones(2, 5)
    before, after = xray.trace(Block(), x), xray.trace(nn.Sequential(Block()), x)

    assert [c.aspect for c in diff(before, after).changes] == ["step added", "renamed"]


def test_one_layer_more_among_many_is_one_difference():
    layers = [Block() for _ in range(300)]

    assert len(outermost(stack(*layers), stack(*layers, Block()))) == 1


def test_tensors_that_only_one_side_has_are_named():
    def net(*outputs):
        return Trace("t", {}, {}, (Pass("forward", 0, {}, (step("net", "net", (), outputs),)),))

    x, y, z = (record(name, "batch") for name in "xyz")

    assert told(net(x, y), net(x, z))[1:] == ["  forward: tensors at net#0: y -> z"]
    assert told(net(x), net(x, z))[1:] == ["  forward: tensors at net#0: none -> z"]


class Plain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(x)))


class Normed(Plain):
    def __init__(self, width):
        super().__init__(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.outer(torch.relu(self.norm(self.inner(x))))


class First(nn.Module):
    part, count = Plain, 2

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(self.part(3) for _ in range(self.count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Second(First):
    part, count = Normed, 3


def test_two_architectures_differ_by_what_one_of_them_lacks():
    old, new = (xray.trace(one(), torch.ones(2, 3)) for one in (First, Second))

    found = diff(old, new)

    told = [(one.aspect, one.step) for one in found.changes if not one.inside and one.aspect != "parameters"]
    assert told == [
        ("renamed", "Second#0"),
        ("step added", "layers.0.norm#0"),
        ("step added", "layers.1.norm#0"),
        ("step added", "layers.2#0"),
    ]


def test_blocks_that_do_other_things_are_not_taken_for_each_other():
    class Third(nn.Module):
        def __init__(self):
            super().__init__()
            self.squash = nn.Sequential(nn.Tanh(), nn.Tanh())

        def forward(self, x):
            return self.squash(x)

    old, new = (xray.trace(one(), torch.ones(2, 3)) for one in (First, Third))

    assert diff(old, new).first.aspect == "step missing"
