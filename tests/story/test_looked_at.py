"""Rows that attention looks at and no tower gives: how they are made of what comes in stands beside the tower."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import words_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention as Looking
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, ROWS, WORDS, PLACES = 15, 4, 31, 7


class Latents(nn.Module):
    """Learned rows look at words, then at each other (Perceiver)."""

    def __init__(self, look=None):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.rows = nn.Parameter(torch.randn(ROWS, WIDTH))
        self.look = look or Layer(WIDTH, Attention(WIDTH, 3), norm="before")
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.head = nn.Linear(WIDTH, 5)

    def read(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1]))

    def forward(self, ids):
        x = self.look(self.rows.expand(len(ids), -1, -1), self.read(ids))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class LooksTwice(Latents):
    """Their second look is at other words."""

    def __init__(self):
        super().__init__()
        self.again, self.others = Layer(WIDTH, Attention(WIDTH, 3), norm="before"), nn.Embedding(WORDS, WIDTH)

    def forward(self, ids):
        x = self.look(self.rows.expand(len(ids), -1, -1), self.read(ids))
        return self.head(self.again(x, self.others(ids)))


class Given(Latents):
    """What they look at comes in as it is."""

    def read(self, rows):
        return rows


class Normed(nn.Module):
    """A look at rows through a norm of these that stands beside the attention's block (PerAct)."""

    def __init__(self):
        super().__init__()
        self.own, self.others, self.look = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention(WIDTH, 3)

    def forward(self, x, memory):
        return x + self.look(self.own(x), self.others(memory))


class LooksThroughANorm(Latents):
    def __init__(self):
        super().__init__(Normed())


class LooksBack(LooksThroughANorm):
    """What the rows look at looks at them last."""

    def __init__(self):
        super().__init__()
        self.back = Normed()

    def forward(self, ids):
        read = self.read(ids)
        x = self.look(self.rows.expand(len(ids), -1, -1), read)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.back.look(read, self.back.others(x)))


IDS = torch.arange(2 * PLACES).view(2, PLACES)


def record(make, given=IDS):
    torch.manual_seed(0)
    return xray.trace(make().eval(), given)


def test_how_rows_are_made_that_are_looked_at_is_drawn():
    trace = record(Latents)
    (column,) = read_columns(trace)

    assert xray.anatomy(trace).towers[0].looked_at
    labels = [node.label for node in sorted(column.condition.nodes, key=lambda node: node.row)]
    assert labels[0] == "IDS"
    assert sorted(labels[1:3]) == ["PLACE LOOKUP", "TABLE LOOKUP"]
    assert labels[3] == "ADDED UP"
    assert column.frames[0].params == sum(one.numel() for one in Latents().look.parameters())
    words = words_of(compose_poster(trace, text_width))
    assert "LOOKED AT" in words
    assert f"{ROWS} learned rows go in. What they look at is made beside them." in words
    assert "Keys and values come from rows that are made beside it." in words
    assert "Not drawn" not in words


@pytest.mark.parametrize("make", [LooksThroughANorm, LooksBack])
def test_a_norm_of_what_is_looked_at_is_drawn_once(make):
    trace = record(make)
    (column,) = read_columns(trace)

    assert "LAYER NORM" not in [node.label for node in column.condition.nodes]
    assert words_of(compose_poster(trace, text_width)).count("NORM BEFORE K, V") == 1


@pytest.mark.parametrize(("make", "given"), [(LooksTwice, IDS), (Given, torch.rand(2, PLACES, WIDTH))])
def test_nothing_of_it_is_told_where_it_is_not_one_thing_or_made_of_nothing(make, given):
    trace = record(make, given)

    assert not any(tower.looked_at for tower in xray.anatomy(trace).towers)
    assert "LOOKED AT" not in words_of(compose_poster(trace, text_width))


class OfOneSeries(nn.Module):
    """Pieces of a series look at the whole of each of its numbers, which another layer leads in (TimeXer)."""

    def __init__(self):
        super().__init__()
        self.pieces, self.wholes = nn.Linear(4 * 3, WIDTH), nn.Linear(PLACES * 4, WIDTH)
        self.looks = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))

    def forward(self, series):
        series = series - series.mean(1, keepdim=True)
        x, others = self.pieces(series.reshape(-1, PLACES, 12)), self.wholes(series.transpose(1, 2))
        for look in self.looks:
            x = look(x, others)
        return x


def test_what_is_led_in_beside_a_stream_of_the_same_numbers_is_none_of_its_own():
    tower = xray.anatomy(record(OfOneSeries, torch.rand(2, PLACES * 4, 3))).towers[0]

    assert {branch.source for branch in tower.branches if isinstance(branch, Looking)} == {None}
    assert not any(branch.longer_keys for branch in tower.branches if isinstance(branch, Looking))
