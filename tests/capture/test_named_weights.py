"""A recording says of each step which parameters it works with, by the names that torch has for them."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.weights import list_unworked, list_worked, read_weights
from xray.ir.json_form import trace_from_json, trace_to_json


class Pair(nn.Module):
    def __init__(self, *, tied, functionally=False):
        super().__init__()
        self.words, self.head = nn.Embedding(11, 5), nn.Linear(5, 11)
        self.functionally = functionally
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        return functional.linear(x, self.words.weight) if self.functionally else self.head(x)


def record(model):
    return xray.trace(model, torch.arange(6).view(2, 3))


def given(step):
    return [record.weight for record in step.inputs if record.weight is not None]


def test_a_leaf_names_the_parameters_of_its_module_and_a_tied_one_by_the_first():
    own, tied = (record(Pair(tied=one)).steps[2].weights for one in (False, True))

    assert own == {"head.weight": 55, "head.bias": 11}
    assert tied == {"words.weight": 55, "head.bias": 11}


def test_a_block_names_none():
    assert record(Pair(tied=False)).steps[0].weights == {}


def test_a_function_that_is_given_a_parameter_names_it():
    step = record(Pair(tied=False, functionally=True)).steps[2]

    assert (given(step), step.weights) == (["words.weight"], {})


def test_names_come_back_from_a_file():
    trace = record(Pair(tied=True, functionally=True))

    assert trace_from_json(trace_to_json(trace)) == trace


def test_what_runs_inside_a_module_is_given_its_parameters():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.rand(2, 3, 8)

    steps = xray.trace(attention, x, x, x).steps
    read = {name for step in steps for name in given(step)}
    assert read == {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}


class Projects(nn.MultiheadAttention):
    """An attention of torch's whose forward is the model's own (TabICL)."""

    def forward(self, x):  # type: ignore[override]
        query = functional.linear(x, self.in_proj_weight)[..., :8]
        return functional.linear(query[..., 0:8], self.out_proj.weight)


def test_weights_that_are_cast_on_the_way_keep_their_names():
    model = Projects(8, 2).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        flow = read_flow(xray.trace(model, torch.rand(3, 8)).passes[0])

    cast = {step.id: given(step) for step in flow.steps if step.op == "to"}
    turned = [one.source for step in flow.steps if step.op == "t" for one in step.inputs]
    assert [cast.get(source) for source in turned] == [["in_proj_weight"], ["out_proj.weight"]]
    assert all(one.source or one.weight for step in flow.steps[3:] for one in step.inputs)


class Makes(nn.Module):
    """A block that makes a linear layer while it runs."""

    def forward(self, x):
        return nn.Linear(4, 3)(x)


def test_parameters_of_a_module_that_was_made_on_the_way_are_named_after_its_class():
    trace = xray.trace(nn.Sequential(Makes(), nn.Linear(3, 2)), torch.ones(2, 4))

    named = [name for step in trace.steps for name in step.weights]
    assert named == ["0.Linear.weight", "0.Linear.bias", "1.weight", "1.bias"]


def test_a_lazy_layer_has_the_sizes_that_it_gets_while_it_runs():
    assert xray.trace(nn.LazyLinear(3), torch.ones(2, 4)).steps[0].weights == {"weight": 12, "bias": 3}


class Cast(nn.Module):
    """Adds two learned rows, of which the second is cast before to the type that it has."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

    def forward(self, x):
        first, second = self.first.to(x.dtype), self.second.to(x.dtype)
        return x + first.unsqueeze(0) + second[None]


def test_what_hands_a_parameter_on_as_it_is_leaves_it_its_name():
    steps = xray.trace(Cast(), torch.ones(2, 4)).steps

    assert [(step.op, given(step)) for step in steps][1:5] == [
        ("to", ["first"]),
        ("to", ["second"]),
        ("unsqueeze", ["first"]),
        ("add", []),
    ]


class Like(nn.Module):
    """Takes the type of a learned row, and multiplies by it then (Gemma 3n)."""

    def __init__(self):
        super().__init__()
        self.row = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x.type_as(self.row) * self.row


def test_what_takes_the_type_of_a_parameter_alone_does_not_use_it():
    flow = read_flow(xray.trace(Like(), torch.ones(2, 4)).passes[0])

    assert [step.op for step in flow.steps][1:] == ["type_as", "mul"]
    assert [dict(read_weights(flow, place)) for place in (1, 2)] == [{}, {"row": 4}]


class OfEach(nn.Module):
    """Works on each tensor of a list, by one layer; another one has no use."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, listed):
        return [self.used(one) for one in listed]


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.each = OfEach()

    def forward(self, x):
        return torch.stack([*self.each([x]), *self.each([])])


def test_a_call_on_an_empty_list_works_with_no_parameter():
    flow = read_flow(xray.trace(Lists(), torch.ones(2, 4)).passes[0])

    assert sorted(list_worked(flow)) == ["each.used.bias", "each.used.weight"]
    assert list_unworked(flow) == {}


class Copies(Pair):
    """A head whose parameter is made of the table's: another object, and the same numbers."""

    def __init__(self, *, part=False):
        super().__init__(tied=False)
        self.head = nn.Linear(5, 11, bias=False)
        table = self.words.weight
        self.head.weight = nn.Parameter(table[:9] if part else table)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_parameter_made_of_another_one_is_the_same_weights(device):
    with torch.device(device):
        model = Copies()
        trace = xray.trace(model, torch.arange(6).view(2, 3))

    step = next(step for step in trace.steps if step.op == "linear")
    assert step.weights == {"words.weight": 55}
    assert trace.steps[0].params == step.params == 55
    assert trace.unused == {}


def test_a_parameter_that_shares_some_numbers_with_another_one_has_its_own():
    trace = xray.trace(Copies(part=True), torch.arange(6).view(2, 3))

    assert trace.steps[2].weights == {"head.weight": 45}
    assert trace.steps[0].params == 55 + 45
