"""Rotary places of several numbers: each gives its part of the angles, picked behind the cosine or laid out before."""

from dataclasses import replace

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, PLACES, WIDTH, FeedForwardPart
from story.sentences.makers import FALSE
from torch import nn

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import read_pass
from xray.story.passages.place_numbers import find_pick
from xray.story.sentences.attentions.of_places import describe_place_numbers
from xray.story.sentences.of_parts import describe_box

D_K = WIDTH // HEADS
NUMBERS = 2


class Turned(nn.Module):
    """Attention whose queries and keys are turned by tables of cosines and sines."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.out = nn.LayerNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, tables):
        rows = self.norm(x)
        q, k, v = (way(rows).unflatten(-1, (HEADS, D_K)).transpose(1, 2) for way in (self.q, self.k, self.v))
        q, k = (
            one * tables[0] + torch.cat((-one[..., D_K // 2 :], one[..., : D_K // 2]), -1) * tables[1] for one in (q, k)
        )
        found = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(found.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, lay):
        super().__init__()
        self.lay, self.words = lay, nn.Embedding(17, WIDTH)
        self.looks = nn.ModuleList(Turned() for _ in range(2))
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(2))

    def forward(self, ids, places):
        x, tables = self.words(ids), [self.lay(places, curve) for curve in (torch.cos, torch.sin)]
        for look, think in zip(self.looks, self.thinks, strict=True):
            x = think(look(x, tables))
        return x


def pick(places, curve):
    """The angles of each number are worked out, and of each some are picked (M-RoPE)."""
    angles = curve(places.float().unsqueeze(-1) * torch.rand(NUMBERS))
    half = torch.cat([angles[0, ..., :1], angles[1, ..., 1:]], -1)
    return torch.cat([half, half], -1).unsqueeze(1)


def pick_apart(places, curve):
    """The same, but the numbers of a pair are of unlike ones (HunYuanVL)."""
    angles = curve(places.float().unsqueeze(-1) * torch.rand(D_K // 2)).repeat(1, 1, 1, 2).split(D_K // 2, -1)
    return torch.cat([angles[0][0], angles[1][1]], -1).unsqueeze(1)


def pick_alike(places, curve):
    """The columns of each half are of the one number and the other, as those of the other half are (Qwen2-VL)."""
    angles = curve(places.float().unsqueeze(-1) * torch.rand(D_K // 2)).repeat(1, 1, 1, 2).split([1] * D_K, -1)
    return torch.cat([one[place % (D_K // 2) % NUMBERS] for place, one in enumerate(angles)], -1).unsqueeze(1)


def merge(places, curve):
    """The angles of all numbers of a place lie side by side before they are bent (axial)."""
    angles = (places.movedim(0, -1).float().unsqueeze(-1) * torch.rand(1)).flatten(-2)
    return curve(torch.cat([angles, angles], -1)).unsqueeze(1)


def merge_behind(places, curve):
    """The same behind the bend."""
    angles = curve(places.movedim(0, -1).float().unsqueeze(-1) * torch.rand(1)).flatten(-2)
    return torch.cat([angles, angles], -1).unsqueeze(1)


def merge_in_turn(places, curve):
    """The first angle of each number lies before the second of any (Kimi K2.5)."""
    angles = curve(places.movedim(0, -1).float().unsqueeze(-1) * torch.rand(D_K // 4)).mT.flatten(-2)
    return torch.cat([angles, angles], -1).unsqueeze(1)


def take_first(places, curve):
    """Angles are worked out of every number, and those of the first alone are used."""
    angles = curve(places.float().unsqueeze(-1) * torch.rand(NUMBERS))[0]
    return torch.cat([angles, angles], -1).unsqueeze(1)


def beside_learned(places, curve):
    """The angles of a row without a place are learned; they stand before those of the places (MLCD)."""
    made = merge_behind(places[..., 1:], curve)
    return torch.cat([curve(nn.Parameter(torch.rand(1, 1, 1, D_K))).expand(BATCH, -1, -1, -1), made], 2)


def lay_one(places, curve):
    angles = curve(places[0].float().unsqueeze(-1) * torch.rand(NUMBERS))
    return torch.cat([angles, angles], -1).unsqueeze(1)


@pytest.mark.parametrize(
    ("lay", "numbers"),
    [
        (pick, NUMBERS),
        (pick_apart, NUMBERS),
        (pick_alike, NUMBERS),
        (merge, NUMBERS),
        (merge_behind, NUMBERS),
        (merge_in_turn, NUMBERS),
        (beside_learned, NUMBERS),
        (take_first, None),
        (lay_one, None),
    ],
)
def test_a_place_has_as_many_numbers_as_give_parts_of_its_angles(lay, numbers):
    torch.manual_seed(0)
    given = (
        torch.arange(BATCH * PLACES).view(BATCH, PLACES),
        torch.arange(2 * PLACES).view(2, 1, PLACES).expand(-1, BATCH, -1),
    )
    (tower,) = read_pass(xray.trace(Model(lay).eval(), *given).passes[0]).towers

    (attention,) = {staging.branches[0].branch for layer in tower.layers for staging in layer[:1]}
    assert isinstance(attention, Attention)
    assert (attention.positions, attention.place_numbers) == ("rotary", numbers)


class Counted(Model):
    """The numbers of a place are all the place itself (Qwen 3.5, where words come in alone)."""

    def __init__(self, lay, last):
        super().__init__(lay)
        self.last = last

    def forward(self, ids, places=None):
        places = torch.arange(ids.shape[1]).view(1, 1, -1).expand(NUMBERS, *ids.shape)
        return super().forward(ids, self.last(places))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("last", "alike"),
    [
        (lambda places: places, True),
        (lambda places: places + 3, True),
        (lambda places: torch.stack([places[0], places[1] * 2]), None),
        (lambda places: places[:1] + torch.tensor([4, 1]).view(NUMBERS, 1, 1), None),
        (lambda places: torch.cat([places[:1], torch.arange(PLACES).flip(0).expand(1, BATCH, -1)]), None),
    ],
)
@pytest.mark.parametrize("lay", [pick, merge])
def test_numbers_of_a_place_that_are_all_one_are_told(lay, last, alike):
    torch.manual_seed(0)
    trace = xray.trace(Counted(lay, last).eval(), torch.arange(BATCH * PLACES).view(BATCH, PLACES))
    (found, *_) = anatomy(trace).towers[0].branches

    assert isinstance(found, Attention)
    assert (found.place_numbers, found.numbers_alike) == (NUMBERS, alike)
    assert ("Here all numbers of a place are the same." in describe_place_numbers(anatomy(trace))) is bool(alike)


@pytest.mark.parametrize(("lay", "unlike"), [(pick_apart, True), (pick_alike, None), (pick, None), (merge, None)])
def test_pairs_whose_numbers_go_by_unlike_numbers_of_a_place_are_told(lay, unlike):
    torch.manual_seed(0)
    found = anatomy(
        xray.trace(Counted(lay, lambda places: places).eval(), torch.arange(BATCH * PLACES).view(BATCH, -1))
    )
    (attention, *_) = found.towers[0].branches
    told = describe_place_numbers(found)

    assert isinstance(attention, Attention)
    assert (attention.turned_pairs, attention.numbers_unlike) == ("halves", unlike)
    assert ("each number turns its own part of a head" in told) is not bool(unlike)
    assert ("the two of a pair go by unlike ones of them" in told) is bool(unlike)


def test_unlike_turns_are_not_said_to_tell_how_far_apart_two_are():
    apart = replace(FALSE, positions="rotary", place_numbers=4, numbers_unlike=True)

    told = [
        "so that scores tell how far apart" in describe_box("rotate_q", one)
        for one in (apart, replace(apart, numbers_alike=True))
    ]

    assert told == [False, True]


@pytest.mark.parametrize(
    ("index", "rank", "picked"),
    [
        ("1", 3, (0, 1)),
        (":, 0", 3, (1, 0)),
        ("2, ..., 2:60:3", 4, (0, 2)),
        ("..., 1", 4, (3, 1)),
        (":, None", 2, (None, 0)),
    ],
)
def test_an_index_picks_a_place_of_an_axis(index, rank, picked):
    assert find_pick(index, rank) == picked
