"""Norms that multiply by 1 + their weights are told apart from those that multiply by these as they are."""

import pytest
import torch
from handwritten import Attention
from torch import nn
from torch.nn import functional

import xray
from xray.story.sentences.of_norms import describe_from_one

WIDTH = 15


class Scaled(nn.Module):
    """An RMS norm, step by step, whose weights are multiplied with in the way that is asked for."""

    def __init__(self, way):
        super().__init__()
        self.way, self.weight = way, nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        weight = self.way(self.weight)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


class Whole(Scaled):
    """A layer norm in one step, given weights of that way."""

    def forward(self, x):
        return functional.layer_norm(x, (WIDTH,), self.way(self.weight))


class Layers(nn.Module):
    """Attention and feed-forwards behind norms of one kind, and a norm at the end."""

    def __init__(self, norm, last):
        super().__init__()
        self.words, self.last = nn.Embedding(31, WIDTH), last
        self.looking = nn.ModuleList(Attention(WIDTH, 3) for _ in range(2))
        self.thinking = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 41), nn.ReLU(), nn.Linear(41, WIDTH)) for _ in range(2)
        )
        self.norms = nn.ModuleList(norm() for _ in range(4))

    def forward(self, ids):
        x = self.words(ids)
        for number, (look, think) in enumerate(zip(self.looking, self.thinking, strict=True)):
            y = self.norms[2 * number](x)
            x = x + look(y, y)
            x = x + think(self.norms[2 * number + 1](x))
        return self.last(x)


def one_more(weight):
    return 1.0 + weight.float()


def one_more_behind(weight):
    return weight + 1


def two_more(weight):
    return weight + 2


def as_it_is(weight):
    return weight.float()


def read(norm, last):
    torch.manual_seed(0)
    found = xray.anatomy(xray.trace(Layers(norm, last), torch.arange(14).view(2, 7)))
    return (found.towers[0].from_one, found.towers[0].not_from_one), describe_from_one(found)


@pytest.mark.parametrize("kind", [Scaled, Whole])
@pytest.mark.parametrize("way", [one_more, one_more_behind])
def test_norms_that_multiply_by_one_more_than_their_weights_say_so(kind, way):
    sites, told = read(lambda: kind(way), kind(way))

    assert sites == (("sublayer", "last"), ())
    assert told == "Norms multiply by 1 + the weights that they have, not by the weights alone."


@pytest.mark.parametrize("last", [Scaled(as_it_is), nn.LayerNorm(WIDTH)])
def test_a_norm_that_multiplies_by_its_weights_among_them_is_named(last):
    sites, told = read(lambda: Scaled(one_more), last)

    assert sites == (("sublayer",), ("last",))
    assert (
        told == "Norms multiply by 1 + the weights that they have; the one behind the last layer by its weights alone."
    )


@pytest.mark.parametrize("way", [as_it_is, two_more, torch.exp])
def test_weights_that_are_taken_otherwise_are_not_told_as_that(way):
    assert read(lambda: Scaled(way), Scaled(way)) == (((), ()), "")


def test_nothing_is_told_where_the_way_of_some_weights_is_not_known():
    assert read(lambda: Scaled(one_more), Scaled(two_more)) == (((), ()), "")
