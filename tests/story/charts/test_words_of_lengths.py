"""An axis of places has no name of another axis, be they equally long."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.body.reading import read_passes
from xray.story.charts.stage_chart import chart_stage

PIECES, D_K = 2, WIDTH // HEADS


class InPieces(nn.Module):
    """Rows of no batch look at those of their own piece, of which there are as many as heads (Qwen4's images)."""

    def __init__(self):
        super().__init__()
        self.norm, self.three, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.three(self.norm(x)).reshape(-1, 3, HEADS, D_K).permute(1, 0, 2, 3).unbind(0)
        query, key = query.float(), key * 2.0 + key.flip(-1) * 3.0
        ways = [one.transpose(0, 1).unsqueeze(0).split([HEADS] * PIECES, dim=2) for one in (query, key, value)]
        seen = [scaled_dot_product_attention(*own).transpose(1, 2) for own in zip(*ways, strict=True)]
        return x + self.out(torch.cat(seen, dim=1).reshape(-1, WIDTH))


def test_places_that_are_as_many_as_heads_are_not_called_heads():
    layers = (part for _ in range(2) for part in (InPieces(), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *layers).eval(), torch.randn(PIECES * HEADS, 7))
    reading = read_passes(trace)[0]
    nodes = chart_stage(reading.flow, reading.towers[0].stagings[0]).nodes
    axes = [node.record.axes for node in nodes if node.record is not None and len(node.record.shape) == 4]

    assert axes
    assert all(one.count("heads") <= 1 for one in axes)
