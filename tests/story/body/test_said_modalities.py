"""Ids of what is no text: a model says what it reads, and its only tower is called by that (ImageGPT)."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray

WIDTH = 15


class Colours(nn.Module):
    """Ids become rows, which go through layers; the kind of a model says what these are of."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers = nn.Sequential(*(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)))

    def forward(self, ids):
        return self.layers(self.words(ids))


class OfImages(Colours):
    input_modalities = ("image",)


class OfWords(Colours):
    input_modalities = "text"


class OfBoth(Colours):
    input_modalities = ("image", "text")


class OfOne(Colours):
    input_modalities = 1


@pytest.mark.parametrize(
    ("kind", "told", "name"),
    [
        (OfImages, "image", "vision"),
        (OfBoth, "image, text", "text"),
        (OfWords, None, "tokens"),
        (Colours, None, "tokens"),
        (OfOne, None, "tokens"),
    ],
)
def test_a_tower_of_ids_is_called_by_what_its_model_says_that_it_reads(kind, told, name):
    trace = xray.trace(kind(), torch.arange(14).view(2, 7))
    (tower,) = xray.anatomy(trace).towers

    whole = next(step for step in trace.steps if step.parent is None)
    assert whole.settings.get("input_modalities") == told
    assert tower.name == name


class Beside(nn.Module):
    """A model of images that reads words beside these (OneFormer's task)."""

    input_modalities = ("image",)

    def __init__(self):
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, 4), nn.Embedding(31, WIDTH)
        self.first, self.second = (
            nn.Sequential(*(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))) for _ in range(2)
        )

    def forward(self, image, ids):
        return self.first(self.patches(image).flatten(2).mT), self.second(self.words(ids))


def test_ids_beside_an_image_are_tokens_whatever_the_model_says():
    trace = xray.trace(Beside(), torch.rand(2, 3, 8, 12), torch.arange(14).view(2, 7))

    assert [tower.name for tower in xray.anatomy(trace).towers] == ["vision", "tokens"]
