"""What a step is made of: of what only lends its shape, or its type, nothing is read."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow


class Forgetful(nn.Module):
    """Two linear layers; the second one reads zeros of the shape of what the first one made."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.second(torch.zeros_like(self.first(x)))


def test_no_numbers_go_through_what_takes_a_shape_alone():
    flow = read_flow(xray.trace(Forgetful(), torch.rand(2, 4)).passes[0])
    made = {step.path: place for place, step in enumerate(flow.steps)}

    assert made["first"] not in set(flow.behind(made["second"]))


class Typed(nn.Module):
    """A linear layer, and other numbers of the type of what it made."""

    def __init__(self, make):
        super().__init__()
        self.first, self.make = nn.Linear(4, 4), make

    def forward(self, x):
        return x * self.make(self.first(x))


@pytest.mark.parametrize(
    "make",
    [
        lambda like: like.new(2, 4).fill_(3),
        lambda like: like.new_tensor(0.5),
        lambda like: like.new_empty(2, 4).fill_(3),
        lambda like: like.new_zeros(2, 4),
        lambda like: like.new_ones(2, 4),
        lambda like: like.new_full((2, 4), 3.0),
        lambda like: torch.arange(4.0, out=like[0] * 1),
    ],
)
def test_no_numbers_go_through_what_takes_a_type_alone(make):
    flow = read_flow(xray.trace(Typed(make), torch.rand(2, 4)).passes[0])
    made = {step.op: place for place, step in enumerate(flow.steps)}

    assert made["linear"] not in set(flow.behind(made["mul"]))


class Laid(nn.Module):
    """A linear layer, as wide and as long as what another one made."""

    def __init__(self, lay):
        super().__init__()
        self.first, self.second, self.lay = nn.Linear(4, 4), nn.Linear(4, 4), lay

    def forward(self, x):
        return self.lay(self.second(x), self.first(x)) * 2


@pytest.mark.parametrize("name", ["expand_as", "view_as", "reshape_as", "type_as", "to"])
def test_no_numbers_go_through_what_is_laid_out_alike(name):
    flow = read_flow(xray.trace(Laid(lambda rows, like: getattr(rows, name)(like)), torch.rand(2, 4)).passes[0])
    made = {step.path: place for place, step in enumerate(flow.steps)}
    behind = set(flow.behind(len(flow.steps) - 1))

    assert made["second"] in behind
    assert made["first"] not in behind
    (laid,) = [place for place, step in enumerate(flow.steps) if step.op == name]
    assert [maker for _, maker in flow.taken(laid)] == [made["second"]]
