"""Keys and values that are learned mixes of all places, and a second linear layer of each place that is none."""

import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sentences.stations.of_stations import describe_station

PLACES, MIXES, HEADS, D_K = 11, 5, 3, 7
WIDTH = HEADS * D_K


class Mixes(nn.Module):
    """An attention whose keys and values are multiplied by learned numbers, along places (Linformer) or along each."""

    def __init__(self, equation, *shape):
        super().__init__()
        self.norm, self.equation = nn.LayerNorm(WIDTH), equation
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.mixes = nn.ParameterList(torch.rand(shape) for _ in range(2))

    def forward(self, x):
        told = self.norm(x)
        key, value = self.key(told), self.value(told)
        key, value = (torch.einsum(self.equation, one, mix) for one, mix in zip((key, value), self.mixes, strict=True))
        query, key, value = (one.view(2, -1, HEADS, D_K).transpose(1, 2) for one in (self.query(told), key, value))
        found = (query @ key.transpose(2, 3) / D_K**0.5).softmax(-1) @ value
        return x + self.out(found.transpose(1, 2).flatten(2))


def read(*mixing):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Mixes(*mixing), Mixes(*mixing))
    trace = xray.trace(model, torch.rand(2, PLACES, WIDTH))
    (tower,) = xray.anatomy(trace).towers
    branch = next(one for one in tower.branches if isinstance(one, Attention))
    boxes = compose_poster(trace, text_width).boxes
    told = {" ".join(run.text for line in box.lines for run in line) for box in boxes}
    return branch.fewer_keys, describe_station(tower, branch), " ".join(told)


def test_keys_that_are_mixes_of_all_places_are_told_as_that():
    mixed, station, told = read("bnd,nk->bkd", PLACES, MIXES)

    assert mixed == MIXES
    assert station == f"Every place looks at {MIXES} keys, each made of several places."
    assert "PLACES MIXED K" in told
    assert "PLACES MIXED V" in told


def test_numbers_of_each_place_that_are_mixed_are_a_linear_layer():
    mixed, station, told = read("bnd,dk->bnk", WIDTH, WIDTH)

    assert (mixed, station) == (None, "Every place looks at every other.")
    assert "PLACES MIXED" not in told
