"""Rows that are put in front of others again come from where they were cut off, past what was made of the others."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.sheet.columns import read_columns

SIDE = 4


class Mapped(nn.Module):
    """An attention of the rows of convolved maps, and of one in front: the class row, or the first of the map."""

    def __init__(self, *, is_class):
        super().__init__()
        self.norm, self.is_class = nn.LayerNorm(WIDTH), is_class
        self.maps = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH) for _ in range(3))
        self.rows = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        first, others = torch.split(self.norm(x), [1, SIDE * SIDE], 1)
        first = first if self.is_class else others[:, :1]
        laid = others.permute(0, 2, 1).view(len(x), WIDTH, SIDE, SIDE)
        made = [torch.cat([first, conv(laid).flatten(2).permute(0, 2, 1)], 1) for conv in self.maps]
        query, key, value = (
            linear(one).unflatten(-1, (HEADS, -1)).transpose(1, 2) for linear, one in zip(self.rows, made, strict=True)
        )
        found = functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("is_class", "led"), [(True, "LAYER NORM"), (False, "16 OF 17 ROWS")])
def test_a_row_is_led_from_the_box_of_which_it_is_a_part(is_class, led):
    layers = [part for _ in range(2) for part in (Mapped(is_class=is_class), FeedForwardPart())]
    (column,) = read_columns(xray.trace(nn.Sequential(*layers).eval(), torch.rand(2, 1 + SIDE * SIDE, WIDTH)))
    chart = column.frames[0].panels[0].chart
    labels = {node.key: node.label for node in chart.nodes}

    for letter in "QKV":
        sources = {labels[edge.source] for edge in chart.edges if labels[edge.target] == f"JOIN {letter}"}
        assert sources == {"CUT ANEW", led}
