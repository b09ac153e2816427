"""Fewer keys than places: each made of several, beside a class token or not, or of some places alone."""

import torch
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.sentences.stations.of_stations import describe_station

WIDTH, SIDE = 12, 6


class Gathers(nn.Module):
    """An attention whose keys and values are made of maps by a convolution, behind the class token (CvT)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fewer = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, 3) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        token, places = self.norm(x).split((1, SIDE * SIDE), 1)
        laid = places.transpose(1, 2).unflatten(2, (SIDE, SIDE))
        key, value = (torch.cat((token, conv(laid).flatten(2).transpose(1, 2)), 1) for conv in self.fewer)
        query = torch.cat((token, laid.flatten(2).transpose(1, 2)), 1)
        heads = (
            layer(one).view(2, -1, 3, 4).transpose(1, 2)
            for layer, one in ((self.query, query), (self.key, key), (self.value, value))
        )
        query, key, value = heads
        found = (query @ key.transpose(2, 3) / 2).softmax(-1) @ value
        return x + self.out(found.transpose(1, 2).flatten(2))


def test_a_row_that_stays_as_it_is_hides_not_that_the_others_were_gathered():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Gathers(), Gathers())
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, 1 + SIDE**2, WIDTH))).towers

    found = [branch for branch in tower.branches if isinstance(branch, Attention)]
    assert [(branch.gathered, branch.ungathered) for branch in found] == [(9, 1)]
    assert describe_station(tower, found[0]).endswith("by one key for every 9; the row beside them has its own.")


class Asks(nn.Module):
    """An attention of all places of a map to fewer keys; heads are one axis with the sequences."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        return x + self.look(self.norm(x))

    def look(self, rows):
        key, value = (layer(self.choose(rows)) for layer in (self.key, self.value))
        query, key, value = (
            one.view(2, -1, 3, 4).transpose(1, 2).flatten(0, 1) for one in (self.query(rows), key, value)
        )
        found = (torch.einsum("bid,bjd->bij", query, key) / 2).softmax(-1) @ value
        return self.out(found.unflatten(0, (2, 3)).transpose(1, 2).flatten(2))


class AsksGathered(Asks):
    """Its keys are made by a convolution with a step."""

    def __init__(self):
        super().__init__()
        self.fewer = nn.Conv2d(WIDTH, WIDTH, 3, 3)

    def choose(self, rows):
        return self.fewer(rows.transpose(1, 2).unflatten(2, (SIDE, SIDE))).flatten(2).transpose(1, 2)


class AsksMixed(Asks):
    """Its keys are mixed of all places by learned weights (Linformer)."""

    def __init__(self):
        super().__init__()
        self.fewer = nn.Parameter(torch.rand(SIDE * SIDE, 5))

    def choose(self, rows):
        return torch.einsum("bnd,nk->bkd", rows, self.fewer)


class AsksFewer(Asks):
    """Its keys are made by a convolution along the places, of which there are not so many for each."""

    def __init__(self):
        super().__init__()
        self.fewer = nn.Conv1d(WIDTH, WIDTH, 7, 6)

    def choose(self, rows):
        return self.fewer(rows.mT).mT


class AsksSome(Asks):
    """Its keys are of the first places alone."""

    def choose(self, rows):
        return rows[:, :5]


def station_of(kind):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), kind(), kind())
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, SIDE**2, WIDTH))).towers
    (told,) = {describe_station(tower, branch) for branch in tower.branches if isinstance(branch, Attention)}
    return told


def test_keys_are_gathered_where_heads_are_one_axis_with_the_sequences():
    assert station_of(AsksGathered) == "Every place looks at all of them, by one key for every 9."


def test_keys_that_learned_weights_mix_of_places_are_told():
    assert station_of(AsksMixed) == "Every place looks at 5 keys, each made of several places."


def test_keys_that_a_convolution_makes_fewer_are_told():
    count = (SIDE**2 - 7) // 6 + 1

    assert station_of(AsksFewer) == f"Every place looks at {count} keys, each made of several places."


def test_no_place_looks_at_every_other_where_there_are_fewer_keys():
    assert station_of(AsksSome) == "Places look at other places."


class SomeAsk(Asks):
    """Its first places alone look at each other; nothing is added to the others."""

    def look(self, rows):
        return nn.functional.pad(super().look(rows[:, :5]), (0, 0, 0, SIDE**2 - 5))

    def choose(self, rows):
        return rows


def test_places_that_look_at_none_are_not_told_to_look_at_every_other():
    assert station_of(SomeAsk) == "Places look at other places."


class HalvesGather(nn.Module):
    """Half of the heads look at keys that are made of 9 places each, the others at some of 4 places each (Shunted)."""

    def __init__(self):
        super().__init__()
        self.norm, self.query, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fewer = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, size, size) for size in (3, 2))
        self.pairs = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        rows = self.norm(x)
        laid, query = rows.mT.unflatten(2, (SIDE, SIDE)), self.query(rows).view(2, -1, 4, 3).transpose(1, 2)
        found = []
        for half, conv, pair in zip(query.chunk(2, dim=1), self.fewer, self.pairs, strict=True):
            key, value = pair(conv(laid).flatten(2).mT).view(2, -1, 2, 2, 3).permute(2, 0, 3, 1, 4)
            weights = (half @ key.mT / 3**0.5).softmax(-1)
            found.append((weights @ value).transpose(1, 2).flatten(2))
        return x + self.out(torch.cat(found, dim=-1))


def test_keys_that_each_half_of_the_heads_gathers_otherwise_are_not_told_of_one_half():
    assert station_of(HalvesGather) == "Places look at other places."
