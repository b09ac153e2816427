"""Sums that stand around all layers, or between any two of them, and add what was there before: none is a layer."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray

WIDTH = 12


def make_layer():
    return Layer(WIDTH, Attention(WIDTH, 3), norm="before")


def count_layers(model, *inputs):
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(model.eval(), *inputs)).towers
    return sum(group.count for group in tower.groups), tower.d_model


class Equilibrium(nn.Module):
    """One layer four times, and before each time what went in is added anew (DEQ, Bai et al. 2019)."""

    def __init__(self):
        super().__init__()
        self.see, self.layer, self.lead = nn.Linear(5, WIDTH), make_layer(), nn.Linear(WIDTH, WIDTH)

    def forward(self, rows):
        given = self.see(rows)
        x = torch.zeros_like(given)
        for _ in range(4):
            x = self.layer(x + self.lead(given))
        return x


def test_what_goes_in_anew_between_layers_is_no_layer():
    assert count_layers(Equilibrium(), torch.rand(2, 7, 5)) == (4, WIDTH)


class Residual(nn.Module):
    """What two layers on patches make of an image is added to the image."""

    def __init__(self):
        super().__init__()
        self.patches, self.back = nn.Conv2d(3, WIDTH, 4, 4), nn.ConvTranspose2d(WIDTH, 3, 4, 4)
        self.layers = nn.ModuleList(make_layer() for _ in range(2))

    def forward(self, image):
        x = self.patches(image)
        rows = x.flatten(2).transpose(1, 2)
        for layer in self.layers:
            rows = layer(rows)
        return image + self.back(rows.transpose(1, 2).reshape(x.shape))


def test_an_image_that_is_added_to_what_all_layers_made_is_no_stream():
    assert count_layers(Residual(), torch.rand(2, 3, 16, 16)) == (2, WIDTH)
