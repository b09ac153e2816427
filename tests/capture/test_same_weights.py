"""A recording says of a step whose weights it uses, where another step used the same ones before."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray


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


def settings_of(model, op="linear"):
    steps = xray.trace(model, torch.arange(6).view(2, 3)).steps
    return next(step.settings for step in steps if step.op == op)


def test_a_tied_layer_names_the_first_one_and_how_much_they_share():
    settings = settings_of(Pair(tied=True))

    assert (settings["same_weights_as"], settings["same_weights"]) == ("words", 55)


def test_a_function_that_is_given_a_module_s_weights_names_the_module():
    settings = settings_of(Pair(tied=False, functionally=True))

    assert (settings["same_weights_as"], settings["same_weights"]) == ("words", 55)


def test_weights_of_its_own_are_not_remarked_on():
    assert "same_weights_as" not in settings_of(Pair(tied=False))


def test_the_same_layer_again_shares_with_nobody():
    model = Pair(tied=False)
    with xray.record(model) as recorder:
        for _ in range(2):
            model(torch.arange(6).view(2, 3))

    assert not any("same_weights_as" in step.settings for step in recorder.trace.steps)


def test_what_runs_inside_a_module_is_no_second_user_of_its_weights():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.rand(2, 3, 8)

    trace = xray.trace(attention, x, x, x)

    assert not any("same_weights_as" in step.settings for step in trace.steps)


class Cast(nn.Module):
    """Adds two learned rows, of which the second is cast before to the type that it has."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

    def forward(self, x):
        first, second = self.first.to(x.dtype), self.second.to(x.dtype)
        return x + first.unsqueeze(0) + second[None]


def test_what_hands_a_parameter_on_as_it_is_does_not_use_it():
    steps = xray.trace(Cast(), torch.ones(2, 4)).steps

    assert [step.op for step in steps][1:5] == ["to", "to", "unsqueeze", "add"]
    assert not any("same_weights_as" in step.settings for step in steps)


class Like(nn.Module):
    """Takes the type of a learned row, and multiplies by it then (Gemma 3n)."""

    def __init__(self):
        super().__init__()
        self.row = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x.type_as(self.row) * self.row


def test_what_takes_the_type_of_a_parameter_alone_does_not_use_it():
    steps = xray.trace(Like(), torch.ones(2, 4)).steps

    assert [step.op for step in steps][1:] == ["type_as", "mul"]
    assert not any("same_weights_as" in step.settings for step in steps)


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
    assert (step.settings["same_weights_as"], step.settings["same_weights"]) == ("words", 55)
    assert trace.steps[0].params == step.params == 55
    assert trace.unused == {}


def test_a_parameter_that_shares_some_numbers_with_another_one_has_its_own():
    trace = xray.trace(Copies(part=True), torch.arange(6).view(2, 3))

    assert not any("same_weights_as" in step.settings for step in trace.steps)
    assert trace.steps[0].params == 55 + 45
