"""What queries, keys and values share before a linear layer makes them is none of them yet: without letters."""

import pytest
import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS = 16, 4


class Shared(nn.Module):
    """Attention of what is done to its rows before, by one layer for all three ways or by one for each."""

    def __init__(self, change, *, fused):
        super().__init__()
        self.change, self.fused, self.out = change, fused, nn.Linear(WIDTH, WIDTH)
        self.ways = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH)] if fused else [nn.Linear(WIDTH, WIDTH)] * 3)
        self.weight, self.bias = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        rows = self.change(x, self.weight, self.bias)
        made = self.ways[0](rows).chunk(3, dim=-1) if self.fused else [way(rows) for way in self.ways]
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in made)
        weights = (query @ key.mT * (WIDTH // HEADS) ** -0.5).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda x, weight, bias: (0.5 * x).tanh() * weight + bias,
        lambda x, weight, bias: x * weight + bias,
        lambda x, weight, bias: torch.addcmul(bias, x, weight),
        lambda x, weight, bias: x.clamp(-2, 2) * weight + bias,
    ],
)
def test_rows_that_are_scaled_and_shifted_before_the_first_linear_layer_are_no_queries(change, fused):
    ways = [Shared(change, fused=fused) for _ in range(2)]
    trace = xray.trace(nn.Sequential(nn.Linear(6, WIDTH), *ways).eval(), torch.rand(2, 7, 6))
    labels = [node.label for node in read_columns(trace)[0].frames[0].panels[0].chart.nodes]

    assert {"SCALE AND SHIFT", "× LEARNED NUMBERS, LEARNED NUMBERS ADDED"}.intersection(labels)
    assert not [label for label in labels if label.startswith("SCALE") and "Q" in label.split()]


class Scaled(nn.Module):
    """One narrow row for queries and keys, each number of it times a learned one for either (GAU)."""

    def __init__(self):
        super().__init__()
        self.norm, self.narrow, self.value = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 6), nn.Linear(WIDTH, WIDTH)
        self.factors, self.out = nn.Parameter(torch.rand(2, 6)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        rows = self.norm(x)
        query, key = torch.einsum("...d,hd->...hd", self.narrow(rows).sigmoid(), self.factors).unbind(-2)
        return x + self.out((query @ key.mT * 6**-0.5).softmax(-1) @ self.value(rows))


def test_learned_numbers_that_each_number_of_a_row_is_multiplied_by_are_no_linear_layer():
    (column,) = read_columns(xray.trace(nn.Sequential(Scaled(), Scaled()).eval(), torch.rand(2, 5, WIDTH)))

    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]
    assert labels[1:6] == ["LINEAR Q", "SIGMOID Q", "× LEARNED NUMBERS Q", "CUT ANEW Q", "SIGMOID K"]
