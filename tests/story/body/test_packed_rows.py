"""Norms before a branch that lays its rows out first, and puts them end to end with nothing: einops' pack (XCiT)."""

import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.reading import read_pass
from xray.story.sheet.columns import read_columns

HIGH, WIDE, LAYERS = 3, 2, 3


class Packed(nn.Module):
    """Attention of a map whose places are laid in one row, and put end to end with no others."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        rows = self.norm(torch.cat([x.reshape(BATCH, -1, WIDTH)], dim=1))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(rows).chunk(3, -1))
        found = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)
        return x + self.out(found.reshape(BATCH, HIGH, WIDE, WIDTH))


class Thinking(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        return x + self.back(functional.gelu(self.wide(self.norm(x))))


class Map(nn.Module):
    """The stream itself begins as rows that are laid out as a map."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, WIDTH)
        self.layers = nn.Sequential(*(part() for _ in range(LAYERS) for part in (Packed, Thinking)))

    def forward(self, x):
        return self.layers(self.first(x).reshape(BATCH, HIGH, WIDE, WIDTH))


def test_a_norm_of_rows_laid_out_stands_before_its_branch_in_every_layer():
    trace = xray.trace(Map().eval(), torch.rand(BATCH, HIGH * WIDE, 5))
    (tower,) = (one.tower for one in read_pass(trace.passes[0]).towers)
    (column,) = read_columns(trace)
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert [group.count for group in tower.groups] == [LAYERS]
    assert [stage.norm.place for stage in tower.groups[0].stages] == ["before", "before"]
    assert labels[:2] == ["LAYER NORM", "ONE LINEAR FOR Q, K, V"]
