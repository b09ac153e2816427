"""Two streams that are worked into one another: where steps would be of layers of both, no tower is told."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.body.reading import are_worked_in, read_pass
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

PAIR = 11


class Looking(nn.Module):
    """Few rows look at many, go on, and are looked at by the scores that they had (LookViT)."""

    def __init__(self, *, looked_back):
        super().__init__()
        self.norm, self.norm_of, self.normed = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.query, self.key, self.value, self.other = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.out, self.again = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.look, self.think, self.last = AttentionPart(), FeedForwardPart(), FeedForwardPart()
        self.looked_back = looked_back

    def forward(self, few, many):
        asked = self.norm_of(many)
        scores = self.query(self.norm(few)) @ self.key(asked).mT * WIDTH**-0.5
        few = few + self.out(scores.softmax(-1) @ self.value(asked))
        few = self.think(self.look(few))
        if self.looked_back:
            many = self.normed(many + self.again(scores.mT.softmax(-1) @ self.other(few)))
        return few, self.last(many)


class Pair(nn.Module):
    """An image's patches, and a pool of them beside; what both become is added up."""

    def __init__(self, *, looked_back):
        super().__init__()
        self.lay = nn.Conv2d(3, WIDTH, 4, 4)
        self.layers = nn.ModuleList(Looking(looked_back=looked_back) for _ in range(2))
        self.norm, self.other, self.head = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 7)

    def forward(self, image):
        maps = self.lay(image)
        few, many = (one.flatten(2).mT for one in (nn.functional.avg_pool2d(maps, 2), maps))
        for layer in self.layers:
            few, many = layer(few, many)
        return self.head(self.norm(few).mean(1) + self.other(many).mean(1))


@pytest.mark.parametrize(("looked_back", "is_told"), [(True, False), (False, True)])
def test_towers_with_sums_and_weights_in_common_are_none(looked_back, is_told):
    (forward,) = xray.trace(Pair(looked_back=looked_back).eval(), torch.rand(BATCH, 3, 16, 16)).passes

    assert bool(read_pass(forward).towers) == is_told


class Matched(nn.Module):
    """What a layer adds to rows is worked out of them, or of those of another image."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, other):
        weights = (self.query(x) @ self.key(other).mT).softmax(-1)
        return x + self.out(weights @ self.value(other))


class Matching(nn.Module):
    """Two images go through the same layers, and look at themselves and each other in turn (LoFTR); or go as one."""

    def __init__(self, *, are_apart):
        super().__init__()
        self.lay, self.are_apart = nn.Conv2d(3, WIDTH, 4, 4), are_apart
        self.layers = nn.ModuleList(Matched() for _ in range(4))

    def forward(self, images):
        rows = self.lay(images).flatten(2).mT
        if not self.are_apart:
            for layer in self.layers:
                rows = layer(rows, rows)
            return rows
        one, other = rows[:1], rows[1:]
        for number, layer in enumerate(self.layers):
            one = layer(one, other if number % 2 else one)
            other = layer(other, one if number % 2 else other)
        return one @ other.mT


@pytest.mark.parametrize("are_apart", [True, False])
def test_two_images_that_go_through_the_same_layers_are_no_branches_of_one(are_apart):
    (forward,) = xray.trace(Matching(are_apart=are_apart).eval(), torch.rand(2, 3, 16, 16)).passes

    assert bool(read_pass(forward).towers) != are_apart


class Mixed(nn.Module):
    """Rows look at themselves by scores that a table of pairs is added to; the table gets what pairs of rows give."""

    def __init__(self, *, worked_in):
        super().__init__()
        self.norm, self.bias, self.worked_in = nn.LayerNorm(PAIR), nn.Linear(PAIR, 1, bias=False), worked_in
        self.normed, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think, self.one, self.other = FeedForwardPart(), nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 2)
        self.outer, self.pairs = nn.Linear(4, PAIR), nn.ModuleList(ThinkOfPairs() for _ in range(3))

    def forward(self, rows, pairs):
        q, k, v = self.qkv(self.normed(rows)).chunk(3, -1)
        scores = q @ k.mT * WIDTH**-0.5 + self.bias(self.norm(pairs)).squeeze(-1)
        rows = self.think(rows + self.out(scores.softmax(-1) @ v))
        if self.worked_in:
            outer = torch.einsum("bic,bjd->bijcd", self.one(rows), self.other(rows))
            pairs = pairs + self.outer(outer.flatten(-2))
        for part in self.pairs:
            pairs = part(pairs)
        return rows, pairs


class ThinkOfPairs(nn.Module):
    """A feed-forward of each pair."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(PAIR), nn.Linear(PAIR, 31), nn.Linear(31, PAIR)

    def forward(self, pairs):
        return pairs + self.down(self.up(self.norm(pairs)).relu())


class Evoformer(nn.Module):
    """Blocks of two streams, each worked into the other; or the pairs alone go into the rows."""

    def __init__(self, *, worked_in):
        super().__init__()
        self.blocks = nn.ModuleList(Mixed(worked_in=worked_in) for _ in range(3))

    def forward(self, rows, pairs):
        for block in self.blocks:
            rows, pairs = block(rows, pairs)
        return rows, pairs


@pytest.mark.parametrize("worked_in", [True, False])
def test_two_streams_that_every_block_works_into_one_another_are_no_towers(worked_in):
    given = torch.rand(BATCH, 5, WIDTH), torch.rand(BATCH, 5, 5, PAIR)
    (forward,) = xray.trace(Evoformer(worked_in=worked_in).eval(), *given).passes

    assert bool(read_pass(forward).towers) != worked_in


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ((0, 1, 2, 3), (1, 2, 3), True),  # a sum around a half of a U-Net, and one within it (LViT)
        ((0, 1, 2, 3), (3, 4, 5), False),  # a layer that both begin with (BasisFormer)
        ((0, 1, 2), (3, 4, 5), False),
    ],
)
def test_a_tower_most_of_whose_weights_work_in_another_one_is_worked_in(one, other, told):
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(6)))
    flow = read_flow(xray.trace(model, torch.rand(BATCH, WIDTH)).passes[0])
    layers = [place for place in range(len(flow.steps)) if flow.op(place) == "linear"]
    held = [SimpleNamespace(nodes=frozenset(layers[place] for place in some)) for some in (one, other)]
    towers: Any = [SimpleNamespace(sums=frozenset(), stagings=[nodes], layers=()) for nodes in held]

    assert are_worked_in(flow, towers) == told


class Scales(nn.Module):
    """Maps of two sizes: to what each has found that of the other is added, brought to its size (CoaT); or of one."""

    def __init__(self, *, both):
        super().__init__()
        self.fine, self.coarse = (nn.ModuleList(ThinkOfMaps() for _ in range(2)) for _ in range(2))
        self.both = both

    def forward(self, fine, coarse):
        one, other = self.fine[0](fine), self.coarse[0](coarse)
        more = nn.functional.interpolate(other, scale_factor=2)
        if self.both:
            other = other + nn.functional.avg_pool2d(one, 2)
        fine, coarse = fine + (one + more), coarse + other
        return fine + self.fine[1](fine), coarse + self.coarse[1](coarse)


class ThinkOfMaps(nn.Module):
    """A product of places in no way that is known."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(2))

    def forward(self, x):
        rows = self.first(x).flatten(2)
        return self.second((rows.mT @ rows @ rows.mT).mT.reshape(x.shape))


class Pyramid(nn.Module):
    """Blocks of maps of two sizes."""

    def __init__(self, *, both):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, WIDTH, 4, 4), nn.Conv2d(WIDTH, WIDTH, 2, 2)
        self.blocks = nn.ModuleList(Scales(both=both) for _ in range(3))

    def forward(self, image):
        fine = self.first(image)
        coarse = self.second(fine)
        for block in self.blocks:
            fine, coarse = block(fine, coarse)
        return fine.mean((2, 3)) + coarse.mean((2, 3))


@pytest.mark.parametrize("both", [True, False])
def test_maps_of_two_sizes_that_give_each_other_what_they_found_are_no_towers(both):
    (forward,) = xray.trace(Pyramid(both=both).eval(), torch.rand(BATCH, 3, 16, 16)).passes

    assert bool(read_pass(forward).towers) != both


class EndToEnd(nn.Module):
    """Two streams go through the same layers: their rows laid end to end, and cut apart again (CogVideoX)."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.look = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH))

    def forward(self, many, few):
        both = torch.cat([self.norms[0](few), self.norms[0](many)], dim=1)
        first, second = self.look(both, both, both, need_weights=False)[0].split([few.shape[1], many.shape[1]], dim=1)
        few, many = few + first, many + second
        both = self.think(torch.cat([self.norms[1](few), self.norms[1](many)], dim=1))
        return many + both[:, few.shape[1] :], few + both[:, : few.shape[1]]


class Together(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(7, WIDTH)
        self.layers = nn.ModuleList(EndToEnd() for _ in range(3))

    def forward(self, many, few):
        many, few = self.first(many), self.second(few)
        for layer in self.layers:
            many, few = layer(many, few)
        return many + few.mean(1, keepdim=True)


def test_streams_whose_rows_go_through_the_same_layers_end_to_end_are_two_towers():
    trace = xray.trace(Together().eval(), torch.rand(BATCH, 13, WIDTH), torch.rand(BATCH, 5, 7))
    labels = [node.label for column in read_columns(trace) for node in column.frames[0].panels[1].chart.nodes]

    assert [tower.layers for tower in xray.anatomy(trace).towers] == [3, 3]
    assert labels[:5] == ["LAYER NORM", "END TO END", "LINEAR + GELU", "LINEAR", "5 OF 18 ROWS"]
    assert "13 OF 18 ROWS" in labels[5:]


class OfTime(nn.Module):
    """Norms of two streams whose rows are scaled, shifted and gated, and sublayers of one of them or of both."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.look = nn.MultiheadAttention(WIDTH, 3, batch_first=True)

    def begin(self, x, told):
        scale, shift, gate = told.chunk(3, dim=-1)
        return self.norm(x) * (1 + scale) + shift, gate

    def forward(self, many, told, few=None, told_few=None):
        rows, gate = self.begin(many, told)
        if few is None:
            return many + gate * self.look(rows, rows, rows, need_weights=False)[0]
        others, of_few = self.begin(few, told_few)
        both = torch.cat([others, rows], dim=1)
        first, second = self.look(both, both, both, need_weights=False)[0].split([few.shape[1], many.shape[1]], dim=1)
        return many + gate * second, few + of_few * first


class OfNoTime(nn.Module):
    """Streams that go through layers of their own, then through layers end to end; one is told of time 0 (FLUX.3)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(7, WIDTH)
        self.time = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.tell, self.tell_few = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.own, self.of_few, self.shared = (nn.ModuleList(OfTime() for _ in range(count)) for count in (2, 2, 3))

    def forward(self, many, few, time):
        many, few = self.first(many), self.second(few)
        told, told_few = self.tell(self.time(time)), self.tell_few(self.time(torch.zeros(BATCH, 1, 1)))
        for own, of_few in zip(self.own, self.of_few, strict=True):
            few, many = of_few(few, told_few), own(many, told)
        for layer in self.shared:
            many, few = layer(many, told, few, told_few)
        return many


def test_streams_of_own_layers_that_go_through_others_end_to_end_are_two_towers():
    given = torch.rand(BATCH, 13, WIDTH), torch.rand(BATCH, 5, 7), torch.rand(BATCH, 1, 1)
    trace = xray.trace(OfNoTime().eval(), *given)
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert [tower.layers for tower in xray.anatomy(trace).towers] == [5, 5]
    assert not [name for name in shares if "in common" in name]
    times = 2 * WIDTH + WIDTH**2 + WIDTH  # both streams' times go through these
    assert [count for name, count in shares.items() if "conditions" in name] == [times + 3 * (WIDTH**2 + WIDTH)]
