"""A learned row that is added behind the last linear layer of an attention, before it is scaled, is told (ZAYA)."""

import pytest
import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS = 15, 3


class Scaled(nn.Module):
    """Attention, of which all that it gives is moved and scaled by learned numbers before the stream takes it."""

    def __init__(self, *, moves):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.moved = nn.Parameter(torch.rand(WIDTH)) if moves else None
        self.times = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        query, key, value = self.qkv(self.norm(x)).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (query @ key.mT / 5**0.5).softmax(-1)
        found = self.out((weights @ value).transpose(1, 2).flatten(2))
        return x + (found if self.moved is None else found + self.moved) * self.times


@pytest.mark.parametrize("moves", [False, True])
def test_a_row_that_is_added_behind_the_last_linear_layer_stands_in_its_box(moves):
    trace = xray.trace(nn.Sequential(*(Scaled(moves=moves) for _ in range(2))), torch.rand(2, 7, WIDTH))
    (column,) = read_columns(trace)
    boxes = {node.label: node.extra for node in column.frames[0].panels[0].chart.nodes}

    name, params = ("LINEAR O + A BIAS", WIDTH**2 + WIDTH) if moves else ("LINEAR O", WIDTH**2)
    assert boxes[name] == f"{params} parameters"
    assert boxes["× LEARNED NUMBERS"] == f"{WIDTH} parameters"
