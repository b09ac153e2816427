"""What is added to the scores of an attention that stands as one box, as its like is drawn in full."""

import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

PLACES = 6


class WithBias(nn.Module):
    """Places look at each other in windows; a learned number by distance is added to their score."""

    def __init__(self, window):
        super().__init__()
        self.window = window
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.bias = nn.Parameter(torch.randn(HEADS, 2 * window - 1))

    def forward(self, x):
        rows = self.norm(x).reshape(-1, self.window, WIDTH)
        query, key, value = (
            one(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        apart = torch.arange(self.window) - torch.arange(self.window)[:, None] + self.window - 1
        seen = (query @ key.mT / HEADS + self.bias[:, apart]).softmax(-1) @ value
        return x + self.out(seen.transpose(1, 2).flatten(2)).reshape(BATCH, PLACES, WIDTH)


def test_an_attention_that_is_one_box_tells_with_how_many_parameters_it_adds_to_its_scores():
    windows = (3, 3, PLACES)
    layers = (part for window in windows for part in (WithBias(window), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *layers).eval(), torch.randn(BATCH, PLACES, 7))
    (column,) = read_columns(trace)
    told = [node.told for frame in column.frames for panel in frame.panels for node in panel.chart.nodes]

    assert (f"bias of relative places added to scores: {HEADS * (2 * PLACES - 1)} parameters",) in told
