"""A learned row that stands in for one sign among the words of a text (T5Gemma 2 at the ends of images)."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance

WIDTH, SIGN = 15, 7


class Marks(nn.Module):
    """Words times the root of their width; one sign has a row of its own."""

    def __init__(self, *, trained):
        super().__init__()
        self.words, self.mark = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(WIDTH), requires_grad=trained)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.words(ids) * WIDTH**0.5
        x[ids == SIGN] = self.mark
        for layer in self.layers:
            x = layer(x)
        return x


def list_labels(*, trained):
    torch.manual_seed(0)
    reading = read_passes(xray.trace(Marks(trained=trained), torch.arange(4, 14).view(2, 5)))[0]
    return [node.label for node in chart_entrance(reading.flow, reading.towers[0]).nodes]


def test_a_learned_row_that_stands_in_for_a_sign_is_a_box():
    assert "A LEARNED ROW PUT IN" in list_labels(trained=True)


def test_a_row_that_is_not_learned_is_no_learned_one():
    assert "A LEARNED ROW PUT IN" not in list_labels(trained=False)
