"""Attention with a convolution beside it, each with a norm of its own: what the attention does is drawn whole."""

import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, D_K = 20, 4, 5


class TwoWays(nn.Module):
    """Attention and a convolution, each behind a norm of its own, laid side by side and merged (Branchformer)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.all, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.near, self.merge = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.all(self.first(x)).view(*x.shape[:2], HEADS, 3 * D_K).transpose(1, 2).chunk(3, dim=-1)
        weights = (query * WIDTH**-0.5 @ key.mT).softmax(-1)
        seen = self.out((weights @ value).transpose(1, 2).flatten(2))
        near = self.near(self.second(x).mT).mT
        return x + self.merge(torch.cat([seen, near], dim=-1))


def record():
    return xray.trace(nn.Sequential(nn.Linear(6, WIDTH), TwoWays(), TwoWays()).eval(), torch.rand(2, 7, 6))


def test_queries_keys_and_values_have_boxes_behind_the_first_of_two_norms():
    chart = read_columns(record())[0].frames[0].panels[0].chart

    labels = {node.label for node in chart.nodes}
    ways = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}
    assert {"ONE LINEAR FOR Q, K, V", "Q · 0.2236"} <= labels
    assert ("LAYER NORM", "ONE LINEAR FOR Q, K, V") in ways
    assert ("LAYER NORM", "SCORES Q·K^T") not in ways


def test_the_factor_of_queries_stands_in_the_formula():
    layout = compose_poster(record(), text_width)

    lines = ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]
    assert "softmax( Q·KT · 0.2236 ) · V" in lines
