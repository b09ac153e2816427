"""Softmaxes that are written out are known as the one step that they are, and nothing else is."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow


class Shares(nn.Module):
    """A linear layer whose rows are shared out in some way, and another that reads the shares."""

    def __init__(self, share):
        super().__init__()
        self.first, self.second, self.share = nn.Linear(6, 6), nn.Linear(6, 6), share

    def forward(self, x):
        return self.second(self.share(self.first(x)))


def read(share):
    flow = read_flow(xray.trace(Shares(share), torch.rand(2, 6, 6)).passes[0])
    return flow, {step.path: place for place, step in enumerate(flow.steps)}


def less_highest(x):
    exps = torch.exp(x - x.amax(-1, keepdim=True))
    return exps / exps.sum(-1, keepdim=True)


def less_highest_without_axis(x):
    exps = torch.exp(x - x.max(-1).values.unsqueeze(-1))
    return exps / exps.sum(-1)[..., None]


def less_highest_of_all(x):
    exps = torch.exp(x - x.max())
    return exps / torch.sum(exps, dim=-1, keepdim=True)


def as_it_is(x):
    exps = x.exp()
    return exps / exps.sum(-1, keepdim=True)


def in_double(x):
    exps = x.double().exp()
    return (exps / exps.sum(-1, keepdim=True)).to(x.dtype)


def in_place(x):
    exps = x.clone().exp_()
    return exps.div_(exps.sum(dim=-1, keepdim=True))


def of_logarithms(x):
    return torch.exp(torch.log_softmax(x, -1))


def along_places(x):
    exps = x.exp()
    return exps / exps.sum(1, keepdim=True)


WRITINGS = (
    less_highest,
    less_highest_without_axis,
    less_highest_of_all,
    as_it_is,
    in_double,
    in_place,
    of_logarithms,
    along_places,
)


@pytest.mark.parametrize("share", WRITINGS)
def test_a_softmax_that_is_written_out_is_one_step(share):
    flow, places = read(share)
    ((place, within),) = flow.written.items()

    assert flow.op(place) == "softmax"
    assert flow.steps[place].settings == {"dim": -2 if share is along_places else -1}
    assert flow.carried_from(flow.makers[place][0]) == places["first"]
    assert {flow.op(one) for one in within} <= {
        "amax",
        "max",
        "sub",
        "exp",
        "exp_",
        "sum",
        "unsqueeze",
        "index",
        "log_softmax",
    }
    assert not any(flow.readers.get(one) for one in within)


def with_sink(x):
    exps = x.exp()
    return exps / (exps.sum(-1, keepdim=True) + 1)


def over_other_axis(x):
    exps = x.exp()
    return exps / exps.sum(-2).unsqueeze(-1)


def over_all(x):
    exps = x.exp()
    return exps / exps.sum()


def of_no_exponentials(x):
    bent = torch.relu(x)
    return bent / bent.sum(-1, keepdim=True)


def over_others(x):
    return x.exp() / (2 * x).exp().sum(-1, keepdim=True)


def hidden_in_part(x):
    exps = x.exp()
    return exps / (exps * torch.ones(6, 6).tril()).sum(-1, keepdim=True)


def added_up_in_turn(x):
    exps = x.exp()
    return exps / exps.cumsum(-1)


def read_besides(x):
    exps = x.exp()
    return exps / exps.sum(-1, keepdim=True) + exps


OTHERS = (with_sink, over_other_axis, over_all, of_no_exponentials, over_others, hidden_in_part, added_up_in_turn)


@pytest.mark.parametrize("share", [*OTHERS, read_besides])
def test_what_is_no_softmax_is_none(share):
    flow, _ = read(share)

    assert not flow.written
    assert "softmax" not in flow.ops


def test_highest_numbers_of_other_rows_are_left_before_it():
    def share(x):
        exps = torch.exp(x - x.amax(-2, keepdim=True))
        return exps / exps.sum(-1, keepdim=True)

    flow, _ = read(share)
    ((place, within),) = flow.written.items()

    assert [flow.op(one) for one in within] == ["exp", "sum"]
    assert flow.op(flow.makers[place][0]) == "sub"
