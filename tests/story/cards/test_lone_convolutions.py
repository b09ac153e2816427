"""A convolution that stands alone in a closed sublayer is told by its box: its kernel is its name."""

import torch
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH = 12


class Mixes(nn.Module):
    """A convolution with layers of its own behind it."""

    def __init__(self):
        super().__init__()
        mix = nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH), nn.BatchNorm2d(WIDTH)
        self.mlp = nn.Sequential(*mix, nn.Conv2d(WIDTH, 40, 1), nn.GELU(), nn.Conv2d(40, WIDTH, 1))

    def forward(self, x):
        return x + self.mlp(x)


class Led(Mixes):
    """A convolution alone stands before that (FastViT's places)."""

    def __init__(self):
        super().__init__()
        self.places = nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)

    def forward(self, x):
        return super().forward(x + self.places(x))


def test_a_lone_convolution_of_a_closed_sublayer_is_drawn():
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 4, 4), *(Mixes() for _ in range(3)), Led(), Mixes()).eval()
    told = " ".join(lines_of(compose_poster(xray.trace(model, torch.rand(2, 3, 32, 32)), text_width)))

    assert " kernel 7×7 " in told
    assert "Not drawn" not in told
