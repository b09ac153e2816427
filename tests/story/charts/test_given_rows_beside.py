"""Rows that are worked out of what is given, and put beside a stream between two layers (HunyuanVideo Framepack)."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Packed(nn.Module):
    """Words in layers, and in others with rows of an image in front of them."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Linear(9, 12), nn.Linear(12, 3)
        self.first, self.then = (
            nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in range(2)) for _ in range(2)
        )
        self.seen = nn.Sequential(nn.Linear(5, 29), nn.SiLU(), nn.Linear(29, 12))

    def forward(self, words, image):
        x = self.words(words)
        for layer in self.first:
            x = layer(x)
        x = torch.cat([self.seen(image), x], dim=1)
        for layer in self.then:
            x = layer(x)
        return self.out(x)


def test_what_works_out_rows_that_stand_beside_a_stream_has_boxes_of_its_own():
    (column,) = read_columns(xray.trace(Packed(), torch.rand(2, 7, 9), torch.rand(2, 4, 5)))
    (chart,) = (frame.bridge for frame in column.frames if frame.bridge is not None)

    told = [(node.label, node.extra) for node in chart.nodes]
    assert told == [("LINEAR", "174 parameters"), ("SiLU", ""), ("LINEAR", "360 parameters"), ("END TO END: 4 + 7", "")]
    assert chart.feet == (chart.head,)
