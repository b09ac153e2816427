"""ReLUs that are written out are known as such, and nothing else is."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow


class Bent(nn.Module):
    """A linear layer whose rows are bent in some way, or a product of two of them."""

    def __init__(self, bend, *, is_product=False):
        super().__init__()
        self.first, self.second, self.bend, self.is_product = nn.Linear(6, 6), nn.Linear(6, 6), bend, is_product

    def forward(self, x):
        made = self.first(x)
        return self.second(self.bend(made @ made.transpose(-1, -2) if self.is_product else made))


def read_ops(bend, **others):
    flow = read_flow(xray.trace(Bent(bend, **others), torch.rand(2, 6, 6)).passes[0])
    return [flow.op(place) for place in flow.written], [flow.op(one) for way in flow.written.values() for one in way]


@pytest.mark.parametrize(
    ("bend", "within"),
    [
        (lambda x: x.clamp(min=0), []),
        (lambda x: torch.clamp(x, 0.0), []),
        (lambda x: x.clamp_min(0), []),
        (lambda x: torch.maximum(x, torch.tensor(0.0)), ["tensor"]),
        (lambda x: torch.max(torch.zeros_like(x), x), ["zeros_like"]),
        (lambda x: x * (x > 0), ["gt"]),
        (lambda x: (x > 0).to(x.dtype) * x, ["gt", "to"]),
    ],
)
def test_a_relu_that_is_written_out_is_known(bend, within):
    assert read_ops(bend) == (["relu"], within)


def test_a_relu_in_place_is_one_in_place():
    assert read_ops(lambda x: x.clamp_(min=0)) == (["relu_"], [])


@pytest.mark.parametrize(
    "bend",
    [
        lambda x: x.clamp(min=0, max=6),
        lambda x: x.clamp(max=0),
        lambda x: x.clamp(min=0.1),
        lambda x: torch.maximum(x, torch.tensor(1.0)),
        lambda x: x * (x > 1),
        lambda x: x * (x < 0),
        lambda x: x * (x.sum(-1, keepdim=True) > 0),
        lambda x: torch.minimum(x, torch.zeros_like(x)),
        lambda x: (2 * x).clamp(min=0),
    ],
)
def test_what_is_no_relu_of_a_layer_is_none(bend):
    assert read_ops(bend) == ([], [])


def test_scores_that_are_held_above_0_are_no_relu():
    assert read_ops(lambda x: x.clamp(min=0), is_product=True) == ([], [])
