"""Keys that a cache leaves off: told where the last ones alone are put aside for a later pass, and nowhere else."""

from types import SimpleNamespace

import pytest
import torch
from story.body.test_context import Thinks
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sentences.attentions.of_windows import describe_kept_last
from xray.story.sentences.stations.of_stations import describe_station

WIDTH, HEADS, PLACES = 15, 3, 7


class Keeps(nn.Module):
    """Attention that looks back, and puts keys and values aside as a function says, values as another one may say."""

    def __init__(self, keep, keep_value=None):
        super().__init__()
        self.norm, self.keeps, self.kept = nn.LayerNorm(WIDTH), (keep, keep_value or keep), []
        self.query, self.key, self.value, self.back = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        query, key, value = (
            one(y).view(*y.shape[:2], HEADS, -1).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        key, value = (torch.cat([torch.tensor([]), one], dim=-2) for one in (key, value))
        self.kept = [keep(one) for keep, one in zip(self.keeps, (key, value), strict=True)]
        future = torch.ones(PLACES, PLACES, dtype=torch.bool).triu(1)
        scores = (query @ key.transpose(-1, -2) / 5**0.5).masked_fill(future, -torch.inf)
        found = scores.softmax(-1) @ value
        return x + self.back(found.transpose(1, 2).reshape(x.shape))


def record(*keeps, keep_value=None):
    torch.manual_seed(0)
    layers = [make() for keep in keeps for make in (lambda keep=keep: Keeps(keep, keep_value), Thinks)]
    return xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(2 * PLACES).view(2, PLACES))


def list_kept(trace):
    (tower,) = xray.anatomy(trace).towers
    return {branch.kept_last for branch in tower.branches if isinstance(branch, Attention)}


def keep_last(one):
    return one[:, :, -31:, :]


class Pieces(Keeps):
    """Such a layer whose configuration names of how many places a piece is."""

    def __init__(self, keep, size):
        super().__init__(keep)
        vars(self)["config"] = SimpleNamespace(attention_chunk_size=size)


def keep_all(one):
    return one


def keep_first(one):
    return one[:, :, :31, :]


def keep_fewer(one):
    return one[:, :, -29:, :]


def keep_wide(one):
    return one[:, :, :, -3:]


def test_it_is_told_of_how_many_places_a_cache_keeps_keys():
    trace = record(keep_last, keep_last, keep_last)
    texts = ["".join(run.text for run in line) for box in compose_poster(trace, text_width).boxes for line in box.lines]

    assert list_kept(trace) == {31}
    words = " ".join(texts)
    assert "A cache keeps only the keys of the last 31 places: later places look no further back." in words
    assert "Every place looks back, never ahead; a cache keeps only the keys of the last 31 places." in words


def read_pieces(*sizes):
    torch.manual_seed(0)
    layers = [make() for size in sizes for make in (lambda size=size: Pieces(keep_last, size), Thinks)]
    trace = xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(2 * PLACES).view(2, PLACES))
    (tower,) = xray.anatomy(trace).towers
    looks = [branch for branch in tower.branches if isinstance(branch, Attention)]
    return {one.chunk_size for one in looks}, describe_kept_last(xray.anatomy(trace)), describe_station(tower, looks[0])


def test_pieces_that_settings_name_are_told_where_a_cache_keeps_one_fewer():
    assert read_pieces(32, 32, 32) == (
        {32},
        "Pieces are set (attention_chunk_size = 32), and not seen at work here, where no row has so many places; a"
        " cache keeps only the keys of the last 31.",
        "Every place looks back, never ahead; attention_chunk_size = 32 is set.",
    )


def test_pieces_of_another_size_are_no_reason_for_what_a_cache_keeps():
    sizes, told, _ = read_pieces(37, 37, 37)

    assert (sizes, told) == (
        {None},
        "A cache keeps only the keys of the last 31 places: later places look no further back.",
    )


def test_layers_whose_cache_keeps_all_are_no_such():
    trace = record(keep_last, keep_all, keep_last, keep_all)

    assert list_kept(trace) == {31, None}


@pytest.mark.parametrize("keep", [keep_all, keep_first, keep_wide])
def test_a_cache_that_keeps_all_or_the_first_places_or_other_numbers_is_not_told(keep):
    assert list_kept(record(keep, keep, keep)) == {None}


@pytest.mark.parametrize("keep_value", [keep_all, keep_first, keep_fewer])
def test_a_cache_that_keeps_other_values_than_keys_is_not_told(keep_value):
    assert list_kept(record(keep_last, keep_last, keep_last, keep_value=keep_value)) == {None}
