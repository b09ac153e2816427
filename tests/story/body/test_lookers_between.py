"""Attentions outside of a list of layers, that look at what comes from beside, are of the layers that they follow."""

import torch
from handwritten import Attention
from story.body.test_adaptors import make_layers
from torch import nn

import xray

WIDTH = 15


class Faces(nn.Module):
    """Layers with another attention behind every `after`-th one, added outside of both (Wan-Animate)."""

    def __init__(self, *, count, after):
        super().__init__()
        self.given, self.after, self.layers = nn.Linear(7, WIDTH), after, make_layers(WIDTH, count)
        self.faces = nn.ModuleList(Attention(WIDTH, 3) for _ in range(count // after))

    def forward(self, x, faces):
        x = self.given(x)
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number % self.after == 0:
                x = self.faces[number // self.after](x, faces) + x
        return x


def test_what_looks_beside_after_some_layers_is_of_these():
    given = torch.randn(2, 5, 7), torch.randn(2, 4, WIDTH)
    (tower,) = xray.anatomy(xray.trace(Faces(count=6, after=3).eval(), *given)).towers

    assert {group.layers: len(group.stages) for group in tower.groups} == {(0, 3): 3, (1, 2, 4, 5): 2}
