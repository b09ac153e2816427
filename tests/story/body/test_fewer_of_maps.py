"""Maps whose pooled places ask or are asked: what becomes one row is told where the map is one of the places alone."""

import pytest
import torch
from printed import lines_of
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster

SIDE = 8


class Pooled(nn.Module):
    """Heads of rows that are laid out as a map, of which 4 neighbours become one, for keys or for queries."""

    def __init__(self, *, turned=True, asks=False):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.turned, self.asks = turned, asks

    def fewer(self, rows):
        rows = rows.mT if self.turned else rows
        return nn.functional.avg_pool2d(rows.reshape(BATCH, WIDTH, SIDE, SIDE), 2).flatten(2).mT

    def forward(self, x):
        rows = self.norm(x)
        asking, asked = (self.fewer(rows), rows) if self.asks else (rows, self.fewer(rows))
        made = (self.query(asking), self.key(asked), self.value(asked))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in made)
        weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
        found = self.out((weights @ value).transpose(1, 2).flatten(2))
        if self.asks:
            found = found.mT.unflatten(2, (SIDE // 2, SIDE // 2))
            found = nn.functional.interpolate(found, scale_factor=2).flatten(2).mT
        return x + found


@pytest.mark.parametrize(
    ("settings", "told"),
    [({}, (4, None)), ({"turned": False}, (None, None)), ({"asks": True}, (None, None))],
    ids=["a map of the rows", "numbers laid out anew", "pooled rows ask all others"],
)
def test_places_that_become_one_key_or_row_are_told_where_the_moves_prove_it(settings, told):
    layers = (part for _ in range(3) for part in (Pooled(**settings), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *layers), torch.rand(BATCH, SIDE * SIDE, 7))

    (tower,) = xray.anatomy(trace).towers
    branch = tower.branches[0]
    assert isinstance(branch, Attention)
    assert (branch.gathered, branch.coarse) == told


class Coarse(Pooled):
    """Of neighbours that become one, or of which one is picked, all rows look at each other and are spread again."""

    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel, 2)

    def forward(self, x):
        rows = self.pool(self.norm(x).mT.unflatten(2, (SIDE, SIDE))).flatten(2).mT
        made = (layer(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        query, key, value = made
        weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
        found = self.out((weights @ value).transpose(1, 2).flatten(2)).mT.unflatten(2, (SIDE // 2, SIDE // 2))
        return x + nn.functional.interpolate(found, scale_factor=2).flatten(2).mT


@pytest.mark.parametrize(("kernel", "told"), [(2, 4), (1, None)], ids=["a mean of 4", "one of 4 (EdgeViT)"])
def test_places_of_which_one_is_picked_do_not_become_one(kernel, told):
    layers = (part for _ in range(3) for part in (Coarse(kernel), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *layers), torch.rand(BATCH, SIDE * SIDE, 7))

    (tower,) = xray.anatomy(trace).towers
    assert [branch.coarse for branch in tower.branches if isinstance(branch, Attention)] == [told]


class PooledBefore(Pooled):
    """A map is pooled before the norm of an attention, and on the way past it (CoAtNet)."""

    def __init__(self):
        super().__init__()
        self.past = nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x):
        laid, pooled = (nn.functional.max_pool2d(x, 2) for _ in range(2))
        rows = self.norm(pooled.flatten(2).mT)
        made = (layer(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        query, key, value = made
        found = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1) @ value
        return self.past(laid) + self.out(found.transpose(1, 2).flatten(2)).mT.unflatten(2, laid.shape[2:])


class OnMaps(FeedForwardPart):
    def forward(self, x):
        return super().forward(x.flatten(2).mT).mT.unflatten(2, x.shape[2:])


def test_a_norm_of_what_is_pooled_first_stands_before_a_sublayer():
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 1), *(part for _ in range(2) for part in (PooledBefore(), OnMaps())))
    trace = xray.trace(model, torch.rand(BATCH, 3, SIDE, SIDE))

    (tower,) = xray.anatomy(trace).towers
    assert {stage.norm.place for group in tower.groups for stage in group.stages} == {"before"}


class SpreadAndCut(nn.Module):
    """Attention of a smaller map, spread again, of which no more is taken than there was (CPUBone)."""

    def __init__(self):
        super().__init__()
        self.fewer = nn.Sequential(nn.GroupNorm(1, WIDTH), nn.Conv2d(WIDTH, WIDTH, 2, 2, groups=WIDTH))
        self.qkv, self.out = nn.Conv2d(WIDTH, 3 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)
        self.spread = nn.Upsample(scale_factor=2)

    def forward(self, x):
        made = self.qkv(self.fewer(x))
        query, key, value = made.flatten(2).unflatten(1, (HEADS, -1)).mT.chunk(3, dim=-1)
        found = nn.functional.scaled_dot_product_attention(query, key, value).mT.flatten(1, 2)
        return x + self.spread(self.out(found.unflatten(2, made.shape[2:])))[..., : x.shape[2], : x.shape[3]]


def test_a_map_that_is_spread_and_of_which_all_is_taken_is_drawn_as_spread():
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 1), *(SpreadAndCut() for _ in range(2)))
    drawn = lines_of(compose_poster(xray.trace(model, torch.rand(BATCH, 3, SIDE, SIDE)), text_width))

    assert "UPSAMPLE" in drawn
    assert "INDEX" not in drawn
