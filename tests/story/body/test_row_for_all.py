"""What one row saw is added to all rows of a stream: that is a sum of a layer, as any other one."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH = 15


class AskedByOne(Layer):
    """A layer whose attention is asked with its first row alone (the last one of FT-Transformer)."""

    def __init__(self):
        super().__init__(WIDTH, Attention(WIDTH, 3), norm="before")

    def forward(self, x, memory=None, mask=None):
        y = self.three(x)
        x = x + self.one(y[:, :1], y)
        return x + self.two(self.four(x))


class PooledForAll(AskedByOne):
    """A layer in whose first sum a mean of all rows is added to each, worked on by linear layers alone."""

    def forward(self, x, memory=None, mask=None):
        x = x + self.two(self.three(x).mean(1, keepdim=True))
        return x + self.two(self.four(x))


class Rows(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.start, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, 2)
        own = (Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.layers = nn.Sequential(*own, last)

    def forward(self, x):
        return self.head(self.layers(self.start(x))[:, 0])


def test_a_layer_that_asks_with_one_row_and_adds_to_all_is_a_layer():
    trace = xray.trace(Rows(AskedByOne()).eval(), torch.rand(2, 7, 3))

    (tower,) = xray.anatomy(trace).towers
    assert tower.layers == 3
    (column,) = read_columns(trace)
    assert [node.label for node in column.exit.nodes] == ["LINEAR OF THE FIRST ROW"]


def test_a_mean_that_is_added_to_all_rows_is_no_such_layer():
    (tower,) = xray.anatomy(xray.trace(Rows(PooledForAll()).eval(), torch.rand(2, 7, 3))).towers

    assert tower.layers == 2
