"""Which argument of the model a step reads, where several are of one shape."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.json_form import trace_from_json, trace_to_json


class Pair(nn.Module):
    """Two tensors that are alike, each multiplied by its own number, and one that the model holds."""

    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.ones(2, 3))

    def forward(self, first, second):
        return first * 2 + second * 3 + self.held * 4


class Nested(nn.Module):
    def forward(self, batch, pair):
        return batch["ids"] * 2 + pair[0] * 3 + pair[1] * 4


class Kept(nn.Module):
    """It reads what it was given in the call before."""

    def forward(self, x):
        before, self.before = getattr(self, "before", x), x
        return before * 2


def factors_of(steps):
    return {step.settings["other"]: step.inputs[0].argument for step in steps if step.op == "mul"}


def ones():
    return torch.ones(2, 3)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("named", [(), ("second",), ("second", "first")])
def test_a_step_tells_which_of_two_alike_arguments_it_reads(device, named):
    given = {"first": ones().to(device), "second": ones().to(device)}
    left = [value for name, value in given.items() if name not in named]
    trace = xray.trace(Pair().to(device), *left, **{name: given[name] for name in named})

    assert factors_of(trace.steps) == {2: "first", 3: "second", 4: None}
    assert [record.argument for record in trace.steps[0].inputs] == [record.name for record in trace.steps[0].inputs]


def test_parts_of_a_container_are_told_by_where_they_stand():
    trace = xray.trace(Nested(), {"ids": ones()}, pair=[ones(), ones()])

    assert factors_of(trace.steps) == {2: "batch.ids", 3: "pair.0", 4: "pair.1"}


def test_one_tensor_given_under_two_names_is_told_as_neither():
    both = ones()

    assert factors_of(xray.trace(Pair(), both, both).steps) == {2: None, 3: None, 4: None}


def test_an_argument_that_was_changed_in_place_is_what_the_change_made():
    class Changes(nn.Module):
        def forward(self, first, second):
            return second.add_(1) * 2 + first * 3

    trace = xray.trace(Changes(), ones(), ones())

    assert factors_of(trace.steps) == {2: None, 3: "first"}


def test_what_an_earlier_pass_was_given_is_no_argument_of_this_one():
    model = Kept()
    with xray.record(model) as recorder:
        model(ones())
        model(ones())

    assert [factors_of(one.steps) for one in recorder.trace.passes] == [{2: "x"}, {2: None}]


def test_operations_between_passes_name_no_argument():
    model, ids = Kept(), ones()
    with xray.record(model) as recorder:
        model(ids)
        torch.cat([ids, ids])

    assert factors_of(recorder.trace.steps) == {2: "x"}


def test_only_what_reads_an_argument_says_so_in_json():
    trace = xray.trace(Pair(), ones(), ones())
    text = trace_to_json(trace)

    assert text.count('"argument":') == 4
    assert trace_from_json(text) == trace
    assert trace_from_json(text.replace(',"argument":"first"', "")).steps[0].inputs[0].argument is None
