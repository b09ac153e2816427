"""A stack that reads what comes in, laid beside what became of a picture, is another tower than the layers of that."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray

CHANNELS, WIDTH, SIDE = 3, 15, 4


def make_layers(width, count):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(count))


class Pictured(nn.Module):
    """Layers of a picture's channels, and wider ones of these beside a noisy picture (I2VGen-XL)."""

    def __init__(self, *, beside):
        super().__init__()
        self.beside, self.picture = beside, nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.enter = nn.Conv2d((1 + beside) * CHANNELS, WIDTH, 3, padding=1)
        self.first, self.layers = make_layers(CHANNELS, 2), make_layers(WIDTH, 3)

    def forward(self, picture, noisy):
        x = self.picture(picture).flatten(2).transpose(1, 2)
        for layer in self.first:
            x = layer(x)
        x = x.transpose(1, 2).unflatten(2, (SIDE, SIDE))
        x = torch.cat([noisy, x], dim=1) if self.beside else x + noisy.mean()
        x = self.enter(x).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


def count_layers(*, beside):
    given = (torch.randn(2, CHANNELS, SIDE, SIDE) for _ in range(2))
    towers = xray.anatomy(xray.trace(Pictured(beside=beside).eval(), *given)).towers
    return [sum(group.count for group in tower.groups) for tower in towers]


def test_a_stack_behind_what_is_laid_beside_numbers_that_come_in_is_a_tower_of_its_own():
    assert count_layers(beside=True) == [2, 3]
    assert count_layers(beside=False) == [5]
