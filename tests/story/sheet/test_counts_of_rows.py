"""The rows of the card on parameters say of how many parts the weights are that they add up."""

import pytest
import torch
from handwritten import Attention, Layer
from recorded import FAMILIES, recorded
from story.parameter_bars import bars_of, count, poster_of
from torch import nn

import xray
from xray.story.recognition.between import weights_of
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_kinds, list_shares

WIDTH, LAYERS = 15, 3


class Twice(nn.Module):
    """A learned row before the places of each frame, and another before what was found of all frames (ViViT)."""

    def __init__(self):
        super().__init__()
        self.lay, self.first, self.second = nn.Linear(11, WIDTH), *(nn.Parameter(torch.rand(1, 1, WIDTH)) for _ in "12")
        self.inside, self.across = (
            nn.Sequential(*(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(LAYERS))) for _ in "12"
        )
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        rows = self.lay(x)
        first = self.first.reshape(-1)[None, None].expand(*x.shape[:2], -1).reshape(*x.shape[:2], 1, WIDTH)
        rows = self.inside(torch.cat((first, rows), 2).flatten(0, 1))
        rows = self.norm(rows).unflatten(0, x.shape[:2])[:, :, 0]
        second = self.second.reshape(-1)[None].expand(len(x), -1).reshape(len(x), 1, WIDTH)
        return self.across(torch.cat((second, rows), 1))


def test_a_learned_row_of_the_entrance_is_counted_there_though_one_of_no_box_has_its_name():
    bars = bars_of(poster_of(Twice(), torch.rand(2, 5, 7, 11)))

    assert (bars["entrance"], bars["all else"]) == (12 * WIDTH + WIDTH, WIDTH + 2 * WIDTH)


class Ahead(nn.Module):
    """Attention and a feed-forward side by side behind one norm, with another feed-forward behind its own norm."""

    def __init__(self, *, more):
        super().__init__()
        self.look, self.norm, self.more = Attention(WIDTH, 3), nn.LayerNorm(WIDTH), None
        self.think = nn.Sequential(nn.Linear(WIDTH, 23), nn.ReLU(), nn.Linear(23, WIDTH))
        if more:
            self.more = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.ReLU(), nn.Linear(31, WIDTH))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.look(y, y) + self.think(y)
        return x if self.more is None else x + self.more(x)


@pytest.mark.parametrize("norm", ["before", "after"])
def test_a_row_is_as_many_times_its_panel_as_it_says_wherever_norms_stand(norm):
    layers = [Layer(WIDTH, Attention(WIDTH, 3), norm=norm) for _ in range(LAYERS)]
    trace = xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(14).view(2, 7))

    columns = read_columns(trace)
    rows = {row: number for row, _, number in list_shares(columns, trace)}
    look, think = (panel.params for panel in columns[0].frames[0].panels)

    assert (rows["self-attention × 3"], rows["feed-forward × 3"]) == (LAYERS * look, LAYERS * think)
    assert not [row for row in rows if "norms" in row or "around" in row]


class Scaled(Layer):
    """A layer whose sums are multiplied by learned numbers, and to which such are added (MobileBERT)."""

    def __init__(self):
        super().__init__(WIDTH, Attention(WIDTH, 3), norm="before")
        self.by, self.more = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x, memory=None, mask=None):
        del memory, mask
        y = self.three(x)
        x = x + self.one(y, y)
        return (x + self.two(self.four(x))) * self.by + self.more


def test_learned_numbers_behind_a_sum_are_counted_with_its_sublayer():
    layers = [Scaled() for _ in range(LAYERS)]
    bars = bars_of(poster_of(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(14).view(2, 7)))

    assert bars["feed-forward × 3"] == count(*(one for layer in layers for one in (layer.two, layer.four))) + 6 * WIDTH
    assert "all else" not in bars


@pytest.mark.parametrize("more", [True, False])
def test_a_norm_that_several_sublayers_read_is_counted_apart_and_every_other_with_its_own(more):
    layers = [Ahead(more=more) for _ in range(LAYERS)]
    bars = bars_of(poster_of(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(14).view(2, 7)))

    rest = [one for layer in layers for one in (layer.think, layer.more) if one is not None]
    assert bars["common norms × 3"] == count(*(layer.norm for layer in layers))
    assert bars[f"feed-forward × {len(rest)}"] == count(*rest)


class Pair(nn.Module):
    """Two streams of one image's rows, and the sum of what a head of each gives (CrossViT)."""

    def __init__(self):
        super().__init__()
        self.lay, self.other = nn.Linear(11, WIDTH), nn.Linear(11, 21)
        self.one, self.two = (
            nn.Sequential(*(Layer(width, Attention(width, 3), norm="before") for _ in range(LAYERS)))
            for width in (WIDTH, 21)
        )
        self.head, self.second = (nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 13)) for width in (WIDTH, 21))

    def forward(self, x):
        return self.head(self.one(self.lay(x))[:, 0]) + self.second(self.two(self.other(x))[:, 0])


def test_each_of_two_heads_that_are_added_up_is_counted_with_its_own_stream():
    model = Pair()
    bars = bars_of(poster_of(model.eval(), torch.rand(2, 7, 11)))

    heads = [number for row, number in bars.items() if row.endswith("head")]
    assert heads == [count(model.head), count(model.second)]


@pytest.mark.parametrize(("own", "told"), [(1, ", weights of 1"), (2, ", weights of 2"), (4, "")])
def test_layers_that_run_again_tell_of_how_many_the_weights_are(own, told):
    layers = [Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(own)]
    again = nn.Sequential(nn.Embedding(31, WIDTH), *(layers[place % own] for place in range(4)))
    bars = bars_of(poster_of(again, torch.arange(14).view(2, 7)))

    assert bars[f"feed-forward × 4{told}"] == count(*(layer.two for layer in layers)) + 2 * own * WIDTH


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_sublayers_of_which_a_row_tells_how_many_hold_what_it_adds_up(name):
    """Each of so many sublayers holds weights of its own, and all of them together as many as the row says."""
    trace = recorded(f"{name}, inference")
    columns = read_columns(trace)

    for column in (one for one in columns if one.is_first):
        sizes = {}
        for kind, groups in list_kinds(column.reading.flow, column.towering, ()):
            sizes[kind] = [weights_of(column.reading.flow, nodes) for nodes in groups]
        several = sum(one.is_first for one in columns) > 1
        rows = {row: number for row, _, number in list_shares(columns, trace)}
        for kind, found in sizes.items():
            row = f"{column.name} {kind.lower()}" if several else kind.lower()
            together = {name: count for weights in found for name, count in weights.items()}
            assert rows[f"{row} × {len(found)}"] == sum(together.values())
            assert all(found)
