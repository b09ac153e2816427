"""Rows in the opposite order: nothing that looks back there is said to look back."""

import pytest
import torch
from handwritten import Attention, make_writer
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.anatomy import attentions
from xray.story.branches.convolutions import describe_convolution
from xray.story.sentences.of_models import list_sentences

WIDTH, HEADS = 15, 3


class Reversed(Attention):
    """Rows are changed before attention, and what it gives is so, too, or its queries' numbers alone."""

    def __init__(self, change):
        super().__init__(WIDTH, HEADS)
        self.change = change

    def forward(self, x, memory, mask=None):
        x = self.change(x)
        return self.change(super().forward(x, x, mask))


@pytest.mark.parametrize(
    ("change", "causal"),
    [
        (lambda x: x, True),
        (lambda x: x.flip(1), None),
        (lambda x: x.roll(1, 1), None),
        (lambda x: x.roll(2, dims=1), None),
        (lambda x: x.flip(-1), True),
    ],
    ids=["as they are", "flipped", "rolled", "rolled by name", "numbers flipped"],
)
def test_attention_over_rows_in_another_order_is_not_said_to_look_back(change, causal):
    torch.manual_seed(0)
    model = make_writer(WIDTH, HEADS)
    for layer in model.rows:
        layer.one = Reversed(change)
    whole = xray.anatomy(xray.trace(model, torch.arange(14).view(2, 7)))

    assert {branch.causal for branch in whole.towers[0].branches if isinstance(branch, attentions.Attention)} == {
        causal
    }
    assert any("hides the future" in told for told in list_sentences(whole)) == bool(causal)


class Mixed(nn.Module):
    """A convolution over each place and two before it."""

    def __init__(self, *, flips):
        super().__init__()
        self.mix, self.flips = nn.Conv1d(WIDTH, WIDTH, 3), flips

    def forward(self, x):
        x = x.flip(1) if self.flips else x
        return self.mix(functional.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)


@pytest.mark.parametrize(("flips", "causal"), [(False, True), (True, None)])
def test_a_convolution_over_rows_in_the_opposite_order_is_not_said_to_look_back(flips, causal):
    flow = read_flow(xray.trace(Mixed(flips=flips), torch.rand(2, 7, WIDTH)).passes[0])

    found = describe_convolution(flow, range(len(flow.steps)))
    assert found is not None
    assert found.causal is causal
