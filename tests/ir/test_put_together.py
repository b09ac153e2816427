"""Parts that are put end to end as they stood before: what makes them so is read as what it makes again."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow


class Joins(nn.Module):
    """A linear layer, parts of what it gives put end to end in some way, and another linear layer."""

    def __init__(self, join):
        super().__init__()
        self.first, self.second, self.join = nn.Linear(11, 11), nn.Linear(11, 11), join

    def forward(self, x):
        return self.second(self.join(self.first(x)))


def read_makers(join):
    """By the path or the operation of each step, those of the steps that made what it reads."""
    flow = read_flow(xray.trace(Joins(join), torch.rand(2, 7, 11)).passes[0])
    names = [step.path if step.module else step.op for step in flow.steps]
    return {
        names[place]: [None if maker is None else names[maker] for _, maker in flow.given(place)]
        for place in range(len(flow.steps))
    }


@pytest.mark.parametrize(
    "join",
    [
        lambda x: torch.cat([x[:, :3], x[:, 3:]], dim=1),
        lambda x: torch.cat([x[:, :3], x[:, 3:5], x[:, 5:]], dim=1),
        lambda x: torch.cat([x[:1], x[1:]]),
        lambda x: torch.cat([torch.empty(2, 0, 11), x[:, :3], x[:, 3:]], dim=1),
    ],
    ids=["two", "three", "of a batch", "and none"],
)
def test_all_parts_of_a_tensor_in_their_order_are_that_tensor(join):
    assert read_makers(join)["cat"] == ["first"]


@pytest.mark.parametrize(
    "join",
    [
        lambda x: torch.cat([x[:, 3:], x[:, :3]], dim=1),
        lambda x: torch.cat([x[:, :3], x[:, 4:]], dim=1),
        lambda x: torch.cat([x[:, :4], x[:, 3:]], dim=1),
        lambda x: torch.cat([x[:, :, :3], x[:, :, 3:].flip(1)], dim=2),
    ],
    ids=["turned", "one left out", "one twice", "one changed"],
)
def test_parts_in_any_other_order_are_joined_anew(join):
    assert len(read_makers(join)["cat"]) > 1


def test_one_tensor_put_end_to_end_with_none_is_that_tensor():
    flow = read_flow(xray.trace(Joins(lambda x: torch.cat([x], dim=1)), torch.rand(2, 7, 11)).passes[0])

    assert [flow.op(place) for place, step in enumerate(flow.steps) if step.op == "cat"] == ["identity"]


def test_parts_that_are_put_together_once_more_are_what_they_were():
    def join(x):
        one, other = x[:, 4:], x.flip(1)
        return torch.cat([one, other], dim=1) + torch.cat([one, other], dim=1)

    flow = read_flow(xray.trace(Joins(join), torch.rand(2, 7, 11)).passes[0])
    first, again = (place for place, step in enumerate(flow.steps) if step.op == "cat")

    assert {*flow.makers[again]} == {first}
    assert (flow.op(first), flow.carried_from(again)) == ("cat", first)
