"""Layers that are not alike, of which a list holds the sublayers, and whose sums the stack around it adds up."""

import torch
from handwritten import Attention
from torch import nn

import xray

WIDTH, PLACES = 12, 5


class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        return self.mix(x.transpose(1, 2)).transpose(1, 2)


def list_sublayers(kind):
    think = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))
    return [*([Near()] if kind == "n" else []), Attention(WIDTH, 3), think]


class Stack(nn.Module):
    """A convolution stands in the layers of an "n" alone (OmniTokenizer)."""

    def __init__(self, kinds):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(list_sublayers(kind)) for kind in kinds)

    def forward(self, x):
        for one in self.layers.modules():
            if isinstance(one, Attention):
                x = x + one(x, x)
            elif isinstance(one, (Near, nn.Sequential)):
                x = x + one(x)
        return x


class Both(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = Stack(first), Stack(second)

    def forward(self, x):
        return self.second(self.first(x))


def test_the_elements_of_a_list_whose_sums_are_added_around_it_are_layers_be_they_unlike():
    (tower,) = xray.anatomy(xray.trace(Both("nnaa", "nn").eval(), torch.rand(2, PLACES, WIDTH))).towers

    assert [group.layers for group in tower.groups] == [(0, 1), (2, 3), (4, 5)]
