"""Norms and sublayers that are scaled, shifted and gated by numbers which each place or frame has of its own."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class ScaledPlaces(nn.Module):
    """What scales and shifts the last norm is laid out for each place, and added to a table (Helios)."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.time = nn.LayerNorm(12), Attention(12, 3), nn.Linear(5, 12)
        self.last, self.table, self.head = nn.LayerNorm(12), nn.Parameter(torch.randn(2, 12)), nn.Linear(12, 11)

    def forward(self, rows, time):
        made = self.time(time)[:, None].expand(-1, 7, -1)
        for _ in range(2):
            read = self.norm(rows) * (1 + made)
            rows = rows + self.mix(read, read)
        shift, scale = (self.table[None, None] + made.unsqueeze(2)).chunk(2, dim=2)
        return self.head(self.last(rows) * (1 + scale.squeeze(2)) + shift.squeeze(2))


def test_what_scales_and_shifts_the_last_norm_is_drawn_once():
    (column,) = read_columns(xray.trace(ScaledPlaces(), torch.rand(2, 7, 12), torch.rand(2, 5)))

    assert [node.label for node in column.exit.nodes] == ["LAST NORM, SCALED AND SHIFTED", "LINEAR"]
    assert [step.op for step in column.exit.nodes[0].steps] == ["layer_norm", "mul", "add"]
