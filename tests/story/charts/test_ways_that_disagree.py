"""Queries cut into heads before their norm, keys and values by a layer that they share: every way leads upwards."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.sheet.columns import read_columns


class Shares(nn.Module):
    """Keys and values are made and cut by one layer, normalised apart, then brought heads first (Gemma 4)."""

    def __init__(self):
        super().__init__()
        self.before, self.q, self.kv, self.o = nn.LayerNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(4) for _ in range(3))

    def forward(self, x):
        normed = self.before(x)
        query, both = self.q(normed).unflatten(-1, (3, 4)), self.kv(normed).unflatten(-1, (3, 4))
        q, k, v = (norm(one).transpose(1, 2) for norm, one in zip(self.norms, (query, both, both), strict=True))
        return x + self.o(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def test_every_arrow_of_an_attention_leads_upwards():
    torch.manual_seed(0)
    layers = nn.Sequential(*(part() for _ in range(2) for part in (Shares, FeedForwardPart)))
    (column,) = read_columns(xray.trace(layers, torch.rand(2, 7, WIDTH)))
    chart = column.frames[0].panels[0].chart

    assert {"NORM K", "HEADS FIRST K", "NORM V"} <= {node.label for node in chart.nodes}
    assert [edge for edge in chart.edges if chart.node(edge.source).row >= chart.node(edge.target).row] == []
