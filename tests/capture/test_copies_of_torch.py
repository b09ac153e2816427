"""Functions of torch that were copied, changed, and put in their place, as they hand themselves on by torch's name."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function

import xray

linear, softmax = functional.linear, functional.softmax


def scaled_linear(input, weight, bias=None, scale=1.0):
    """A copy of a linear layer with one more argument."""
    if has_torch_function((input, weight, bias)):
        given = {"bias": bias, "scale": scale}
        return handle_torch_function(linear, (input, weight, bias), input, weight, **given)
    return (input @ weight.mT + bias) * scale


def halved_softmax(input, dim):
    """A copy of softmax that does something else, with no other arguments."""
    if has_torch_function((input,)):
        return handle_torch_function(softmax, (input,), input, dim=dim)
    return input.softmax(dim) / 2


def shifted_linear(input, weight, bias=None, shift=0.0):
    """A copy with one more argument that it does not hand on (AgentFormer's attention)."""
    if has_torch_function((input, weight, bias)):
        return handle_torch_function(linear, (input, weight, bias), input, weight, bias=bias)
    return input @ weight.mT + bias + shift


def lifted_linear(input, weight, bias=None, lift=None):
    """A copy that hands itself on by its own name, without one of its arguments (DAB-DETR's attention)."""
    if has_torch_function((input, weight, bias)):
        return handle_torch_function(lifted_linear, (input, weight, bias), input, weight, bias=bias)
    return (input @ weight.mT + bias) * lift


class Scaled(nn.Module):
    def __init__(self, copy):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(5, 3)), nn.Parameter(torch.rand(5))
        self.copy = copy

    def forward(self, x):
        if self.copy is halved_softmax:
            return halved_softmax(x, -1)
        if self.copy is shifted_linear:
            return shifted_linear(x, self.weight, self.bias, shift=x.mean())
        if self.copy is lifted_linear:
            return lifted_linear(x, self.weight, self.bias, lift=2.0)
        return scaled_linear(x, self.weight, self.bias, scale=3.0)


@pytest.mark.parametrize(
    ("copy", "name", "inside"),
    [
        (scaled_linear, "linear", ["transpose", "mm", "add", "mul"]),
        (halved_softmax, "softmax", ["softmax", "div"]),
        (shifted_linear, "linear", ["transpose", "mm", "add", "add"]),
        (lifted_linear, "lifted_linear", ["transpose", "mm", "add", "mul"]),
    ],
)
def test_a_changed_copy_runs_and_not_what_it_was_copied_of(copy, name, inside):
    model, x = Scaled(copy), torch.rand(2, 3)
    expected = model(x)
    made = []
    model.register_forward_hook(lambda module, args, result: made.append(result))

    trace = xray.trace(model, x)

    assert torch.equal(made[0], expected)
    (block,) = [step for step in trace.steps if step.depth == 1 and step.op == name]
    assert [step.op for step in trace.steps if step.parent == block.id] == inside


class Lifted(nn.Module):
    """A copy that became a method, and hands itself on by a name that is no more (HRFormer's attention)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(5, 3))

    def raised_linear(self, input, lift):
        if has_torch_function((input, self.weight)):
            return handle_torch_function(raised_linear, (input, self.weight), input)  # type: ignore[name-defined]  # noqa: F821
        return (input @ self.weight.mT) * lift

    def forward(self, x):
        return self.raised_linear(x, 2.0)


def test_a_copy_that_became_a_method_runs_by_a_name_that_is_not_there_afterwards():
    model, x = Lifted(), torch.rand(2, 3)
    expected = model(x)

    trace = xray.trace(model, x)

    (block,) = [step for step in trace.steps if step.op == "raised_linear"]
    assert [step.op for step in trace.steps if step.parent == block.id] == ["transpose", "mm", "mul"]
    assert "raised_linear" not in globals()
    assert torch.equal(model(x), expected)
