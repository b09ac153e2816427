"""One layer whose rows are cut for queries, keys and values at once, an axis of windows between (Hiera)."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class InUnits(nn.Module):
    """Attention of pre-normalised rows with an axis for units of a picture, of which there is one."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, places, _ = x.shape
        made = self.qkv(self.norm(x)).reshape(batch, places, 1, 3, self.heads, -1).permute(3, 0, 4, 2, 1, 5)
        q, k, v = made.unbind(0)
        found = (q * q.shape[-1] ** -0.5 @ k.mT).softmax(-1) @ v
        return x + self.out(found.transpose(1, 3).reshape(batch, -1, WIDTH))


def list_labels(heads):
    torch.manual_seed(0)
    layers = nn.Sequential(*(part for _ in range(2) for part in (InUnits(heads), FeedForwardPart())))
    (column,) = read_columns(xray.trace(layers, torch.rand(2, 7, WIDTH)))
    return [node.label for node in column.frames[0].panels[0].chart.nodes]


def test_a_cut_of_all_three_ways_says_that_it_cuts_heads():
    labels = list_labels(3)

    assert "HEADS OF Q, K, V" in labels
    assert "CUT ANEW" not in labels


def test_rows_of_one_head_are_cut_into_none():
    assert "HEADS OF Q, K, V" not in list_labels(1)
