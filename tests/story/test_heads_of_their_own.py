"""Attentions side by side, each a module with linear layers of its own: what each found lies beside the others'."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

COUNT, PLACES = 3, 5


class Head(nn.Module):
    """One head, its keys turned to columns (the video lecture of nanoGPT)."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH // COUNT) for _ in range(3))

    def forward(self, x):
        weights = (self.q(x) @ self.k(x).transpose(-2, -1) * (WIDTH // COUNT) ** -0.5).softmax(-1)
        return weights @ self.v(x)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.heads = nn.ModuleList(Head() for _ in range(COUNT))

    def forward(self, x):
        read = self.norm(x)
        return x + self.out(torch.cat([head(read) for head in self.heads], dim=-1))


def test_attentions_that_lie_side_by_side_are_counted_and_keys_of_no_heads_are_turned():
    model = nn.Sequential(Heads(), FeedForwardPart(), Heads(), FeedForwardPart())
    (column,) = read_columns(xray.trace(model, torch.rand(2, PLACES, WIDTH)))

    names = [node.label for node in column.frames[0].panels[0].chart.nodes]
    assert f"WITH {COUNT - 1} OTHER ATTENTIONS BESIDE IT" in names
    assert "TRANSPOSE K^T" in names
    assert not any("CUT ANEW" in name for name in names)
