"""One norm that all sublayers of a layer share counts in the first of them, and the others say so."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.charts.steps.same_weights import SAME_WEIGHTS
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_frames

WIDTH = 12


class Shared(nn.Module):
    """Attention and a feed-forward, one norm before both."""

    def __init__(self):
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)
        self.think = nn.Sequential(nn.Linear(WIDTH, 40), nn.GELU(), nn.Linear(40, WIDTH))

    def forward(self, x):
        rows = self.norm(x)
        x = x + self.attend(rows, rows)
        return x + self.think(self.norm(x))


def test_a_norm_that_sublayers_share_counts_once_in_a_layer():
    model = nn.Sequential(nn.Embedding(31, WIDTH), Shared(), Shared()).eval()
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))
    (frame,) = count_frames(column.reading, column.towering, column.frames, {})

    norms = [node.extra for panel in frame.panels for node in panel.chart.nodes if node.label == "LAYER NORM"]
    assert norms == [f"{2 * WIDTH} parameters", SAME_WEIGHTS]
    assert sum(panel.params for panel in frame.panels) == frame.params
    assert frame.params == sum(one.numel() for one in model[1].parameters())
