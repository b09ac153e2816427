"""Rows that are fewer than have room in a window, and are made as many: they are one window (Granite Speech 5)."""

import pytest
import torch
from story.body.building import record_family
from story.body.table import FAMILIES
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention

WINDOW, WIDTH, HEADS = 4, 6, 3


class Blocked(nn.Module):
    """Attention within blocks of a row that is made as long as several of them, or as it is."""

    def __init__(self, window):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.window = window

    def forward(self, x):
        count, places = x.shape[:2]
        normed = self.norm(x)
        blocks = normed
        if self.window:
            blocks = functional.pad(normed, (0, 0, 0, -places % self.window)).reshape(-1, self.window, WIDTH)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(blocks).chunk(3, dim=-1))
        made = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(made.reshape(count, -1, WIDTH)[:, :places])


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 13), nn.Linear(13, WIDTH)

    def forward(self, x):
        return x + self.back(functional.gelu(self.wide(self.norm(x))))


class Pooled(nn.Module):
    """Two layers before the rows become half as many, and two behind that."""

    def __init__(self, window):
        super().__init__()
        self.first = nn.Linear(5, WIDTH)
        self.before = nn.Sequential(*(part for _ in range(2) for part in (Blocked(WINDOW), FeedForward())))
        self.pool = nn.Conv1d(WIDTH, WIDTH, 2, stride=2)
        self.behind = nn.Sequential(*(part for _ in range(2) for part in (Blocked(window), FeedForward())))

    def forward(self, signal):
        return self.behind(self.pool(self.before(self.first(signal)).mT).mT)


@pytest.mark.parametrize(
    ("places", "window", "told"),
    [
        (10, WINDOW, {WINDOW}),
        (6, WINDOW, {WINDOW}),
        (6, None, {WINDOW, None}),
        (8, None, {WINDOW, None}),
    ],
)
def test_rows_that_are_made_as_many_as_have_room_in_a_window_are_one(places, window, told):
    found = anatomy(xray.trace(Pooled(window).eval(), torch.rand(2, places, 5)))

    looks = [one for tower in found.towers for one in tower.branches if isinstance(one, Attention)]
    assert {one.window for one in looks} == told


class Routed(nn.Module):
    """Blocks of a row whose places look at those of the one block that suits theirs best (BiFormer)."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(1, (-1, WINDOW)).chunk(3, dim=-1)
        best = (q.mean(2) @ k.mean(2).mT).topk(1, dim=-1).indices
        every = torch.cat([k, v], -1)[:, None].expand(-1, q.shape[1], -1, -1, -1)
        asked = every.gather(2, best[..., None, None].expand(-1, -1, -1, WINDOW, 2 * WIDTH)).squeeze(2)
        q, k, v = (one.flatten(0, 1).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (q, *asked.chunk(2, dim=-1)))
        made = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(made.reshape(x.shape))


def test_blocks_that_look_at_chosen_ones_are_no_windows():
    found = anatomy(xray.trace(nn.Sequential(Routed(), FeedForward(), Routed()).eval(), torch.rand(2, 12, WIDTH)))

    looks = [one for tower in found.towers for one in tower.branches if isinstance(one, Attention)]
    assert {(one.window, one.partial) for one in looks} == {(None, True)}


def test_layers_that_see_all_places_before_are_not_counted_with_those_of_a_window_longer_than_the_row():
    _, trace = record_family(FAMILIES["gemma2"], sliding_window=128)
    (tower,) = xray.anatomy(trace).towers
    looks = [branch for branch in tower.branches if isinstance(branch, Attention)]

    assert {(branch.window, branch.all_places) for branch in looks} == {(128, None), (None, None)}
