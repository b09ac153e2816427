"""What is said of what goes in: each patch becomes a vector; what a convolution makes of neighbours is added."""

from dataclasses import replace

import pytest
import torch
from story.body.test_mistaken import PLACES, WIDTH, FeedForwardPart
from story.charts.test_dropouts import Looks
from story.sentences.pools_of_parts import TOWERS
from torch import nn

import xray
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.sentences.of_ends import describe_entrance


@pytest.mark.parametrize(
    ("reads", "kernel", "told"),
    [
        ("image", (7, 7), "An image becomes vectors, one for each patch."),
        ("image", (2, 7, 7), "An image becomes vectors, one for each patch."),  # repeated in time (Qwen2-VL)
        ("video", (7, 7), "The pictures of a video become vectors, one for each patch."),
        ("video", (1, 7, 7), "The pictures of a video become vectors, one for each patch."),
        ("video", (2, 7, 7), "The pictures of a video become vectors, one for each patch of 2 pictures."),
    ],
)
def test_patches_of_several_pictures_are_told_of_a_video_alone(reads, kernel, told):
    tower = replace(TOWERS["image"], reads=reads, entrance=(EntrancePart("patches", 35, kernel=kernel),))

    assert describe_entrance(tower) == told


MIXED = "What convolution makes of each place and its neighbours is added"
UNTOLD = "; nothing behind it tells places apart"


class Mixed(nn.Module):
    """Layers, before which a convolution is added that mixes neighbours or not."""

    def __init__(self, *, mixes=True, places=False):
        super().__init__()
        self.begin = nn.Linear(7, WIDTH)
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=1) if mixes else nn.Conv1d(WIDTH, WIDTH, 1)
        self.places = nn.Parameter(torch.rand(PLACES, WIDTH)) if places else None
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(nn.Sequential(Looks(nn.Identity()), FeedForwardPart()) for _ in range(3))

    def forward(self, x):
        x = self.begin(x)
        x = x if self.places is None else x + self.places
        x = self.norm(x + nn.functional.gelu(self.mix(x.mT)).mT)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, f" {MIXED}{UNTOLD}."),
        ({"places": True}, f" Learned places are added. {MIXED}."),
        ({"mixes": False}, ""),
    ],
)
def test_a_convolution_that_is_added_before_the_layers_is_told(more, told):
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(Mixed(**more).eval(), torch.rand(2, PLACES, 7))).towers

    assert describe_entrance(tower) == f"Vectors come in.{told}"


class Spelled(Mixed):
    """What a table gives for each id goes through convolutions before the layers (Charformer)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(31, WIDTH)
        self.first = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        x = self.first(self.table(x).mT).mT
        for layer in self.layers:
            x = layer(x)
        return x


def test_ids_that_are_looked_up_are_no_signal_though_convolutions_follow():
    (tower,) = xray.anatomy(xray.trace(Spelled().eval(), torch.arange(2 * PLACES).view(2, PLACES))).towers

    assert (tower.reads, tower.vocab) == ("ids", 31)
