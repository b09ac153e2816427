"""Queries and keys into which convolutions mix those of places before, and values of the place before (ZAYA)."""

from dataclasses import replace

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart, Reader, rows
from story.sentences.pools import FALSE, make_anatomy
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.of_rows import describe_shifted


class LooksBack(nn.Module):
    """Two convolutions work on queries and keys side by side, and a part of each value was made one place before."""

    def __init__(self, kernels=(2, 3), behind=0, late=WIDTH - 5):
        super().__init__()
        self.front, self.behind = sum(kernels) - 2 - behind, behind
        self.query, self.key, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.now, self.late = nn.Linear(WIDTH, WIDTH - late), nn.Linear(WIDTH, late) if late else None
        self.near = nn.Sequential(
            nn.Conv1d(2 * WIDTH, 2 * WIDTH, kernels[0], groups=2 * WIDTH), nn.Conv1d(2 * WIDTH, 2 * WIDTH, kernels[1])
        )

    def forward(self, x):
        both = torch.cat([self.query(x), self.key(x)], dim=-1).transpose(1, 2)
        both = self.near(pad(both, (self.front, self.behind))).transpose(1, 2)
        value = self.now(x)
        if self.late is not None:
            late = self.late(x)
            first = self.late(x.new_zeros(x.shape[0], 1, WIDTH))
            value = torch.cat([value, torch.cat([first, late[:, :-1]], dim=1)], dim=-1)
        query, key, value = (
            one.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2)
            for one in (both[..., :WIDTH], both[..., WIDTH:], value)
        )
        found = scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.out(found.transpose(1, 2).flatten(2))


def read(**more):
    model = Reader(LooksBack(**more), FeedForwardPart(), LooksBack(**more), FeedForwardPart())
    found = xray.anatomy(xray.trace(model, rows()))
    (branch,) = {one for one in found.towers[0].branches if isinstance(one, Attention)}
    return branch, list_sentences(found)


def test_places_before_are_told_of_queries_keys_and_values():
    branch, told = read()

    assert (branch.mixed_before, branch.values_before) == (3, (WIDTH - 5, WIDTH))
    assert "Convolutions mix queries and keys of the 3 places before into those of each place." in told
    assert f"{WIDTH - 5} of {WIDTH} numbers that a place gives as values are made of the place before it." in told


@pytest.mark.parametrize("more", [{"behind": 1}, {"kernels": (1, 1)}])
def test_convolutions_that_look_ahead_or_nowhere_are_not_told_so(more):
    branch, _ = read(**more)

    assert branch.mixed_before is None


def test_values_of_their_own_place_are_not_told_otherwise():
    branch, told = read(late=0)

    assert branch.values_before is None
    assert not any("place before" in one and "values" in one for one in told)


class Shifted(nn.Module):
    """Queries, keys and values are made of rows of which a part is that of the place before (x-transformers)."""

    def __init__(self, shift=1):
        super().__init__()
        self.norm, self.shift = nn.LayerNorm(WIDTH), shift
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        own, before = self.norm(x).split([WIDTH - 5, 5], dim=-1)
        both = torch.cat([own, pad(before, (0, 0, self.shift, -self.shift))], dim=-1)
        query, key, value = (
            way(both).reshape(*x.shape[:2], HEADS, -1).transpose(1, 2) for way in (self.query, self.key, self.value)
        )
        return x + self.out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("shift", [1, 0])
def test_rows_that_are_in_part_of_the_place_before_are_called_so_and_are_no_views_of_one_place(shift):
    model = Reader(Shifted(shift), FeedForwardPart(), Shifted(shift), FeedForwardPart())
    trace = xray.trace(model, rows())
    found = xray.anatomy(trace)
    lines = ["".join(run.text for run in line) for box in compose_poster(trace, text_width).boxes for line in box.lines]

    (branch,) = {one for one in found.towers[0].branches if isinstance(one, Attention)}
    assert branch.shifted == ((5, WIDTH) if shift else None)
    assert ("SIDE BY SIDE, 5 OF THE PLACE BEFORE" in lines) == bool(shift)
    assert any("three views of each place" in line for line in lines) != bool(shift)
    assert not any(line.startswith("SIDE BY SIDE Q") for line in lines)
    told = (
        f"5 of the {WIDTH} numbers of which a place's queries, keys and values are made are those of the place before"
    )
    assert any(told in one for one in list_sentences(found)) == bool(shift)


class ShiftedFirst(Shifted):
    """The norm reads rows of which a part is that of the place before (Megabyte)."""

    def forward(self, x):
        own, before = x.split([WIDTH - 5, 5], dim=-1)
        both = self.norm(torch.cat([own, pad(before, (0, 0, 1, -1))], dim=-1))
        query, key, value = (
            way(both).reshape(*x.shape[:2], HEADS, -1).transpose(1, 2) for way in (self.query, self.key, self.value)
        )
        return x + self.out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


def test_a_norm_of_rows_that_are_in_part_of_the_place_before_has_a_box_behind_theirs():
    trace = xray.trace(Reader(ShiftedFirst(), FeedForwardPart(), ShiftedFirst(), FeedForwardPart()), rows())
    (branch,) = {one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention)}
    boxes = [box for box in compose_poster(trace, text_width).boxes if box.lines]
    firsts = ["".join(run.text for run in box.lines[0]).split("  ")[0] for box in boxes]

    assert branch.shifted == (5, WIDTH)
    start = firsts.index("LAYER INPUT")
    assert firsts[start + 1 : start + 3] == ["SIDE BY SIDE, 5 OF THE PLACE BEFORE", "LAYER NORM"]


def test_half_of_the_numbers_is_told_where_towers_differ_in_how_many_these_are():
    looks = [replace(FALSE, shifted=shifted) for shifted in ((3, 6), (5, 10), (5, 11))]

    assert describe_shifted(make_anatomy(*looks[:2])).startswith("Half of the numbers of which")
    assert describe_shifted(make_anatomy(*looks)) == ""
