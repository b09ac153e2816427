"""A move of queries whose heads do not come before their places is not said to put heads first."""

import pytest
import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, PLACES = 12, 3, 7


class Head(nn.Module):
    """Attention of one head, whose queries and keys are turned by a matrix for each place (llama from scratch)."""

    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.turns = nn.Buffer(torch.rand(PLACES, WIDTH, WIDTH))

    def turn(self, rows):
        return torch.bmm(rows.transpose(0, 1), self.turns).transpose(0, 1)

    def forward(self, x):
        query, key, value = (way(x) for way in self.ways)
        return x + (self.turn(query) @ self.turn(key).mT * WIDTH**-0.5).softmax(-1) @ value


class Back(Head):
    """Heads that go behind the places for a norm, and before them again (nGPT)."""

    def turn(self, rows):
        rows = rows.unflatten(-1, (HEADS, -1)).transpose(1, 2) * self.turns[:, 0, : WIDTH // HEADS]
        rows = rows.transpose(1, 2)
        return (rows / rows.norm(dim=-1, keepdim=True) * self.turns[0, :HEADS, :1]).transpose(1, 2)

    def forward(self, x):
        query, key, value = (way(x) for way in self.ways)
        value = value.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return x + ((self.turn(query) @ self.turn(key).mT).softmax(-1) @ value).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("kind", [Head, Back])
def test_only_heads_that_come_before_places_are_put_first(kind):
    trace = xray.trace(nn.Sequential(nn.Embedding(9, WIDTH), kind(), kind()).eval(), torch.arange(14).view(2, 7) % 9)
    nodes = read_columns(trace)[0].frames[0].panels[0].chart.nodes

    first = [node.record.axes for node in nodes if node.label.startswith("HEADS FIRST")]
    assert "AXES SWAPPED Q" in [node.label for node in nodes]
    assert all(axes[-3] == "heads" for axes in first)
