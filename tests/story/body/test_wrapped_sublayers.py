"""Blocks of which each sublayer stands in a block of one class: a layer is the whole one, not a part of it."""

import pytest
import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

BATCH, WIDTH, WIDER, SIDE, KEYS = 5, 14, 22, 6, 3


class Added(nn.Module):
    """What a module makes of a map, added to that."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Look(nn.Module):
    """Attention of one head among all places of a map, whose channels stand first."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.ask = nn.GroupNorm(1, width), nn.Conv2d(width, 2 * KEYS + width, 1)
        self.back, self.sizes = nn.Conv2d(width, width, 1), [KEYS, KEYS, width]

    def forward(self, x):
        query, key, value = (one.flatten(2) for one in self.ask(self.norm(x)).split(self.sizes, dim=1))
        shares = (query.mT @ key * KEYS**-0.5).softmax(dim=-1)
        return self.back((value @ shares.mT).reshape(x.shape).relu())


def around(width):
    return Added(nn.Sequential(nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width)))


def think(width):
    return Added(nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.ReLU(), nn.Conv2d(2 * width, width, 1)))


class Block(nn.Module):
    """A convolution, an attention where it `looks`, and a feed-forward."""

    def __init__(self, width, looks):
        super().__init__()
        self.around, self.think = around(width), think(width)
        self.mix = Added(Look(width)) if looks else nn.Identity()

    def forward(self, x):
        return self.think(self.mix(self.around(x)))


class Stage(nn.Module):
    """Blocks, before which all but the first of some make a map smaller."""

    def __init__(self, before, width, count, *first):
        super().__init__()
        smaller = [around(before), think(before), nn.Conv2d(before, width, 3, 2, 1), around(width), think(width)]
        smaller = [*first, *smaller]
        self.smaller = nn.Sequential(*(smaller if before != width else []))
        self.blocks = nn.Sequential(*(Block(width, before != width) for _ in range(count)))

    def forward(self, x):
        return self.blocks(self.smaller(x))


class Staged(nn.Module):
    """Two stages of blocks; those of the second look too (SHViT)."""

    def __init__(self, *first):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 2, 2)
        self.stages = nn.Sequential(Stage(WIDTH, WIDTH, 2), Stage(WIDTH, WIDER, 4, *first))

    def forward(self, image):
        return self.stages(self.patches(image))


class Listed(nn.Module):
    """Two stages of sublayers that stand in one list each, the last of them alone (LeViT)."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 2, 2)
        parts = [(Added(Look(WIDTH)), think(WIDTH), Added(Look(WIDTH)), think(WIDTH), think(WIDTH)) for _ in range(2)]
        self.stages = nn.Sequential(*(nn.Sequential(*stage) for stage in parts))

    def forward(self, image):
        return self.stages(self.patches(image))


@pytest.fixture(scope="module")
def trace():
    return xray.trace(Staged().eval(), torch.rand(BATCH, 3, 4 * SIDE, 4 * SIDE))


def test_each_block_is_one_layer(trace):
    (tower,) = xray.anatomy(trace).towers
    parts = {
        number: tuple(branch.part for stage in group.stages for branch in stage.branches)
        for group in tower.groups
        for number in group.layers
    }

    around, looking = ("convolution", "feed_forward"), ("convolution", "attention", "feed_forward")
    assert parts == {0: around, 1: around, **dict.fromkeys(range(2, 6), looking)}


def test_what_stands_before_and_behind_fewer_places_is_done_between_layers(trace):
    (column,) = read_columns(trace)
    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    learned = [step for node in bridge.nodes for step in node.steps if step.params]

    assert [node.label for node in bridge.nodes].count("ADDED UP") == 4
    assert {step.path.split(".")[2] for step in learned} == {"smaller"}


def test_one_head_laid_out_in_a_map_is_joined_to_none(trace):
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]

    assert not [one for one in texts if "CONCAT HEADS" in one]
    assert [one for one in texts if one.startswith(f"LAID OUT AS A MAP OF {SIDE}×{SIDE}")]


def test_sublayers_that_come_again_in_one_list_are_several_layers():
    (tower,) = xray.anatomy(xray.trace(Listed().eval(), torch.rand(BATCH, 3, 4 * SIDE, 4 * SIDE))).towers
    first = next(group for group in tower.groups if 0 in group.layers)

    assert [branch.part for stage in first.stages for branch in stage.branches] == ["attention", "feed_forward"]


def turn(rows):
    return rows.transpose(1, 2)


class Strided(nn.Module):
    """Rows look at each other, and a convolution makes them fewer, each in a listed block of one class (P-STMO)."""

    def __init__(self, step):
        super().__init__()
        self.pool, self.look = nn.MaxPool1d(1, step), nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.around = nn.Sequential(nn.Conv1d(WIDTH, WIDER, 1), nn.ReLU(), nn.Conv1d(WIDER, WIDTH, 3, step, 1))
        self.sublayer = nn.ModuleList(Passed(WIDTH) for _ in range(2))

    def forward(self, x):
        x = self.sublayer[0](x, lambda rows: self.look(rows, rows, rows)[0])
        return self.sublayer[1](x, lambda rows: turn(self.around(turn(rows))), lambda rows: turn(self.pool(turn(rows))))


class Passed(nn.Module):
    """What something makes of normed rows, added to these, which `past` makes fewer first."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, made, past=lambda rows: rows):
        return past(x) + made(self.norm(x))


class Shorter(nn.Module):
    """Layers that give fewer and fewer rows."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Strided(step) for step in (2, 3, 3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_sublayers_between_which_a_stream_is_made_shorter_are_one_layer():
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(Shorter().eval(), torch.rand(BATCH, 54, WIDTH))).towers
    parts = {tuple(branch.part for stage in group.stages for branch in stage.branches) for group in tower.groups}

    assert (tower.layers, parts) == (3, {("attention", "convolution")})


def test_a_norm_before_what_stands_between_layers_is_of_none_of_them():
    trace = xray.trace(Staged(nn.GroupNorm(1, WIDTH)).eval(), torch.rand(BATCH, 3, 4 * SIDE, 4 * SIDE))
    (tower,) = xray.anatomy(trace).towers
    (column,) = read_columns(trace)
    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]

    assert (tower.groups[0].layers, tower.groups[0].stages[-1].norm.place) == ((0, 1), "none")
    assert bridge.nodes[0].label == "GROUP NORM IN 1 GROUP"


class Weighed(nn.Module):
    """What is not known: rows weighed by bent products of them, with a norm behind these."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        kept = torch.einsum("bnd,bnl->bdl", self.key(x).softmax(1), self.value(x))
        return x + self.out(nn.functional.silu(self.norm(self.query(x).softmax(-1) @ kept)))


class WeighedAgain(Weighed):
    """The same, of another class."""


class Pair(nn.Module):
    """One behind the other."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first(), second()

    def forward(self, x):
        return self.second(self.first(x))


class Decoded(nn.Module):
    """Listed blocks of two sublayers that are not known, each in a block of one class, or both of a class."""

    def __init__(self, *kinds):
        super().__init__()
        self.lead = nn.Linear(5, WIDTH)
        self.blocks = nn.ModuleList(Pair(*kinds) for _ in range(3))

    def forward(self, x):
        x = self.lead(x)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize(("kinds", "layers"), [((Weighed, WeighedAgain), 3), ((Weighed, Weighed), 6)])
def test_unknown_sublayers_of_several_classes_in_a_block_are_one_layer(kinds, layers):
    (tower,) = xray.anatomy(xray.trace(Decoded(*kinds).eval(), torch.rand(2, 7, 5))).towers

    assert {branch.part for branch in tower.branches} == {"unknown"}
    assert sum(len(group.layers) for group in tower.groups) == layers
