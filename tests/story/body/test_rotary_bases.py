"""The bases of rotary places, as constants that a model holds show them, and numbers that it holds besides."""

import math
from dataclasses import replace

import pytest
import torch
from story.sentences.makers import FALSE, make_anatomy
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.tree import Anatomy
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.sentences.attentions.of_places import describe_rotary, describe_turned, describe_waves

HEADS, WIDTH, PLACES = 3, 42, 5
SIZE = WIDTH // HEADS // 2
START = "Rotary places: queries and keys are turned by their place. They turn in pairs of one number from each half"


def make_powers(base, size=SIZE):
    return base ** -(torch.arange(size) / size)


def turn_halves(x, angles):
    angles = torch.cat((angles, angles), -1)
    half = x.shape[-1] // 2
    return x * angles.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angles.sin()


def turn_neighbours(x, angles):
    angles = angles.repeat_interleave(2, -1)
    return x * angles.cos() + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * angles.sin()


def turn_neighbours_brought_into_halves(x, angles):
    return turn_halves(x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2), angles)


def turn_as_complex(x, angles):
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def turn_by_matrices(x, angles):
    """Each pair times a matrix of 2 × 2 (Perception Encoder, PE-AV)."""
    matrices = torch.stack((angles.cos(), -angles.sin(), angles.sin(), angles.cos()), -1).unflatten(-1, (2, 2))
    return (x.unflatten(-1, (-1, 1, 2)) * matrices).sum(-1).flatten(-2)


def turn_pairs_of_an_axis(x, angles):
    """Each number of a pair is picked from an axis of two, and both are stacked again (torchtune)."""
    pairs, waves = x.unflatten(-1, (-1, 2)), torch.stack((angles.cos(), angles.sin()), -1)
    first = pairs[..., 0] * waves[..., 0] - pairs[..., 1] * waves[..., 1]
    second = pairs[..., 1] * waves[..., 0] + pairs[..., 0] * waves[..., 1]
    return torch.stack((first, second), -1).flatten(-2)


def turn_pairs_of_two_axes(x, angles):
    """Each number of a pair is picked, an axis of 1 beside it, and meets a column of the pair's matrix (Flux)."""
    pairs = x.unflatten(-1, (-1, 1, 2))
    matrices = torch.stack((angles.cos(), -angles.sin(), angles.sin(), angles.cos()), -1).unflatten(-1, (2, 2))
    return (matrices[..., 0] * pairs[..., 0] + matrices[..., 1] * pairs[..., 1]).flatten(-2)


def turn_none(x, angles):
    """Neighbours meet, whose angles are those of numbers half a row apart."""
    angles = angles.repeat(1, 2)
    return x * angles.cos() + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * angles.sin()


def turn_no_halves(x, angles):
    angles = angles.repeat_interleave(2, -1)
    half = x.shape[-1] // 2
    return x * angles.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angles.sin()


def turn_parts(x, angles):
    """Two parts of each row, the one behind the other, each by its own halves (Gemma 4's images)."""
    first, others = angles.split((2, angles.shape[-1] - 2), -1)
    parts = x.split((4, x.shape[-1] - 4), -1)
    return torch.cat([turn_halves(part, one) for part, one in zip(parts, (first, others), strict=True)], -1)


def turn_longer(x, angles):
    half = x.shape[-1] // 2
    cos, sin = (wave.repeat(1, 2) for wave in (angles.cos() * 1.5 / 2.0, angles.sin().true_divide(4 / 3)))
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def turn_askew(x, angles):
    """Cosines alone are multiplied."""
    half = x.shape[-1] // 2
    angles = angles.repeat(1, 2)
    return x * (angles.cos() * 1.5) + torch.cat((-x[..., half:], x[..., :half]), -1) * angles.sin()


TURNS = {
    "halves": turn_halves,
    "neighbours": turn_neighbours,
    "brought": turn_neighbours_brought_into_halves,
    "complex": turn_as_complex,
    "matrices": turn_by_matrices,
    "axis": turn_pairs_of_an_axis,
    "axes": turn_pairs_of_two_axes,
}


OTHERS = {
    "none": turn_none,
    "parts": turn_parts,
    "no halves": turn_no_halves,
    "longer": turn_longer,
    "askew": turn_askew,
}


class LookTurned(nn.Module):
    def __init__(self, frequencies, pairs="halves"):
        super().__init__()
        self.pairs = pairs
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def turn(self, x):
        angles = torch.arange(x.shape[-2])[:, None] * self.frequencies
        return (TURNS | OTHERS)[self.pairs](x, angles)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        made = functional.scaled_dot_product_attention(self.turn(q), self.turn(k), v)
        return x + self.out(made.transpose(1, 2).flatten(-2))


class Think(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 59), nn.Linear(59, WIDTH)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


class Turned(nn.Module):
    def __init__(self, *frequencies, held=None, pairs="halves"):
        super().__init__()
        self.register_buffer("held", held, persistent=False)
        self.words, self.think = nn.Embedding(19, WIDTH), nn.ModuleList(Think() for _ in frequencies)
        self.look = nn.ModuleList(LookTurned(one, pairs) for one in frequencies)

    def forward(self, ids):
        x = self.words(ids)
        x = x if self.held is None else x * self.held
        for look, think in zip(self.look, self.think, strict=True):
            x = think(look(x))
        return x


def read_bases(*frequencies):
    found = anatomy(xray.trace(Turned(*frequencies).eval(), torch.zeros(2, PLACES, dtype=torch.long)))
    return [one.rotary_base for one in found.towers[0].branches if isinstance(one, Attention)], describe_rotary(found)


@pytest.mark.parametrize(
    ("bases", "told"),
    [((10_000.0,) * 2, ", with base 10,000."), ((500.0, 160_000.0), ", with base 500 or 160,000.")],
)
def test_the_bases_of_turns_are_told(bases, told):
    found, sentence = read_bases(*(make_powers(base) for base in bases))

    assert (found, sentence) == (sorted(set(bases)), f"{START}{told}")


class LookTurnedAnew(LookTurned):
    """Frequencies are worked out while the model runs."""

    def __init__(self, make):
        super().__init__(torch.ones(SIZE))
        self.make = make

    def turn(self, x):
        return turn_halves(x, torch.arange(PLACES)[:, None] * self.make(self.frequencies))


def read_base_anew(make):
    model = Turned(make_powers(10_000.0)).eval()
    model.look[0] = LookTurnedAnew(make)
    found = anatomy(xray.trace(model, torch.zeros(2, PLACES, dtype=torch.long)))
    first = found.towers[0].branches[0]
    assert isinstance(first, Attention)
    return first.rotary_base


@pytest.mark.parametrize(
    ("base", "make"),
    [
        (10_000.0, lambda _: 1.0 / 10_000 ** (torch.arange(0, 2 * SIZE, 2) / (2 * SIZE))),
        (500.0, lambda _: torch.exp(torch.arange(SIZE) * (-math.log(500.0) / SIZE))),
        (1e6, lambda _: torch.pow(torch.tensor(1e6), torch.arange(SIZE) / -SIZE)),
        (10_000.0, lambda _: (10_000.0 ** (torch.arange(SIZE) / SIZE)).reciprocal() * 1.0),
        (None, lambda _: (1 / 10_000.0 ** (torch.arange(SIZE) / SIZE)) / 4),
        (None, lambda _: 1 / (1.0 + torch.arange(SIZE))),
        (None, lambda _: torch.cat([1 / base ** (torch.arange(4) / 4) for base in (10_000.0, 20_671.1557)])[:SIZE]),
        (None, lambda held: held / 10_000.0 ** (torch.arange(SIZE) / SIZE)),
    ],
)
def test_a_base_that_is_worked_out_while_the_model_runs_is_told(base, make):
    assert read_base_anew(make) == base


class LookTurnedByTable(LookTurned):
    """Cosines and sines are held as pairs, in a row for each place (torchtune)."""

    def __init__(self, table):
        super().__init__(torch.ones(SIZE))
        self.register_buffer("table", table, persistent=False)

    def turn(self, x):
        pairs, (cos, sin) = x.unflatten(-1, (-1, 2)), self.table[:PLACES].unbind(-1)
        first, second = pairs[..., 0], pairs[..., 1]
        return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)


def make_table(row, start=0):
    angles = torch.arange(start, start + 19)[:, None] * row
    return torch.stack((angles.cos(), angles.sin()), -1)


@pytest.mark.parametrize(
    ("base", "table"),
    [
        (500_000.0, make_table(make_powers(500_000.0))),
        (None, make_table(make_powers(500_000.0), start=3)),
        (None, make_table(torch.linspace(1, 0.1, SIZE))),
        (None, make_table(make_powers(500_000.0)).flip(-1)),
    ],
    ids=["powers", "not from 0 on", "no powers", "sines first"],
)
def test_the_base_of_a_table_of_pairs_is_told(base, table):
    model = Turned(make_powers(10_000.0)).eval()
    model.look[0] = LookTurnedByTable(table)
    (first, *_) = anatomy(xray.trace(model, torch.zeros(2, PLACES, dtype=torch.long))).towers[0].branches

    assert isinstance(first, Attention)
    assert (first.positions, first.turned_pairs, first.rotary_base) == ("rotary", "neighbours", base)


@pytest.mark.parametrize("others", [(), (10_000.0,)])
@pytest.mark.parametrize(("fast", "field"), [(3, "rotary_slowed"), (0, "rotary_all_slowed")])
def test_how_much_slower_rotary_places_turn_is_told(others, fast, field):
    slowed = torch.cat((make_powers(10_000.0)[:fast], make_powers(10_000.0)[fast:] / 8))
    found = anatomy(xray.trace(Turned(slowed, *map(make_powers, others)).eval(), torch.zeros(2, 5, dtype=torch.long)))
    which = f"{'in some attentions ' if others else ''}{'those that turn slowest' if fast else 'all'} turn"

    fields = ("rotary_slowed", "rotary_all_slowed")
    assert [getattr(found.towers[0].branches[0], one) for one in fields] == [
        8 if one == field else None for one in fields
    ]
    assert describe_rotary(found).endswith(f"base 10,000. {which[0].upper()}{which[1:]} 8 times slower than that.")


@pytest.mark.parametrize(
    "odd", [torch.linspace(1, 0.1, SIZE), make_powers(10_000.0) / 2.0123], ids=["no powers", "slower"]
)
def test_no_base_is_told_where_one_is_not_known(odd):
    found, sentence = read_bases(make_powers(10_000.0), odd)

    assert sorted(found, key=str) == [10_000.0, None]
    assert sentence == f"{START}."


def test_the_base_of_one_tower_is_told_where_that_of_another_is_not_known():
    found = anatomy(xray.trace(Turned(make_powers(10_000.0)).eval(), torch.zeros(2, PLACES, dtype=torch.long)))
    (tower,) = found.towers
    group = tower.groups[0]
    (look, *others) = group.stages
    (turned,) = look.branches
    assert isinstance(turned, Attention)
    stages = (replace(look, branches=(replace(turned, rotary_base=None),)), *others)
    unknown = replace(tower, name="vision", groups=(replace(group, stages=stages),))

    told = describe_rotary(Anatomy((unknown, tower), (), None, None, None))
    assert told.endswith(f"with base 10,000 in the {tower.name} tower.")


def test_a_number_that_a_model_holds_is_written_out():
    trace = xray.trace(
        Turned(make_powers(10.0), held=torch.tensor(2.5)).eval(), torch.zeros(2, PLACES, dtype=torch.long)
    )
    reading = read_pass(trace.passes[0])

    assert "× 2.5" in {node.label for node in chart_entrance(reading.flow, reading.towers[0]).nodes}


def test_of_parts_that_are_turned_each_by_itself_no_halves_of_the_row_are_told():
    found = anatomy(xray.trace(Turned(make_powers(10.0), pairs="parts").eval(), torch.zeros(2, PLACES).long()))

    assert [(one.positions, one.turned_pairs) for one in found.towers[0].branches if isinstance(one, Attention)] == [
        ("rotary", None)
    ]


@pytest.mark.parametrize(("way", "pairs"), [(way, "halves" if way == "halves" else "neighbours") for way in TURNS])
def test_which_numbers_are_turned_together_is_told(way, pairs):
    found = anatomy(xray.trace(Turned(make_powers(10.0), pairs=way).eval(), torch.zeros(2, PLACES, dtype=torch.long)))

    assert {one.turned_pairs for one in found.towers[0].branches if isinstance(one, Attention)} == {pairs}
    assert ("neighbouring" in describe_rotary(found)) == (pairs == "neighbours")


@pytest.mark.parametrize("way", list(TURNS))
def test_the_base_of_angles_is_told_however_rows_are_turned(way):
    found = anatomy(xray.trace(Turned(make_powers(500.0), pairs=way).eval(), torch.zeros(2, PLACES, dtype=torch.long)))

    assert {one.rotary_base for one in found.towers[0].branches if isinstance(one, Attention)} == {500.0}


def test_what_towers_turn_otherwise_is_told_of_each():
    (one,), (other,) = (
        anatomy(
            xray.trace(Turned(make_powers(base), pairs=pairs).eval(), torch.zeros(2, PLACES, dtype=torch.long))
        ).towers
        for base, pairs in ((10.0, "halves"), (500.0, "neighbours"))
    )
    both = Anatomy((replace(one, name="text"), replace(other, name="vision")), (), None, None, None)

    assert describe_rotary(both).endswith(
        " They turn in pairs of one number from each half (text) or neighbouring numbers (vision),"
        " with base 10 (text) or 500 (vision)."
    )


@pytest.mark.parametrize(("turned", "half"), [(None, "each half"), (4, "each half of what is turned")])
def test_halves_are_those_of_what_is_turned_where_others_are_not(turned, half):
    whole = make_anatomy(replace(FALSE, positions="rotary", turned_pairs="halves", turned=turned))

    assert describe_rotary(whole).endswith(f"They turn in pairs of one number from {half}.")


@pytest.mark.parametrize(("way", "other"), [("none", "its neighbour"), ("no halves", "another")])
def test_numbers_of_unlike_angles_are_not_said_to_be_turned(way, other):
    trace = xray.trace(Turned(make_powers(10.0), pairs=way).eval(), torch.zeros(2, PLACES, dtype=torch.long))
    found, reading = anatomy(trace), read_pass(trace.passes[0])
    labels = {node.label for node in chart_stage(reading.flow, reading.towers[0].stagings[0]).nodes}

    assert {one.positions for one in found.towers[0].branches if isinstance(one, Attention)} == {"waves"}
    assert describe_rotary(found) == describe_turned(found) == ""
    assert f"its place, {other}, times a sine, is added or subtracted." in describe_waves(found)
    assert {"COSINES AND SINES × Q", "COSINES AND SINES × K"} <= labels


def test_how_many_numbers_are_multiplied_by_waves_is_told():
    whole = make_anatomy(replace(FALSE, positions="waves", turned_pairs="neighbours", turned=4, d_k=7))

    assert describe_waves(whole).endswith(" It is done to 4 of the 7 numbers of each head, not to the others.")


@pytest.mark.parametrize(("way", "length"), [("longer", 0.75), ("askew", None), ("halves", None), ("neighbours", None)])
def test_how_long_turning_makes_rows_is_told(way, length):
    found = anatomy(xray.trace(Turned(make_powers(10.0), pairs=way).eval(), torch.zeros(2, PLACES, dtype=torch.long)))

    assert {one.turn_length for one in found.towers[0].branches if isinstance(one, Attention)} == {length}
    assert (" What is turned becomes 0.75 times as long." in describe_rotary(found)) == (length is not None)


class LookNormed(LookTurned):
    """Heads are cut, normed, and then turned (Lumina 2)."""

    def __init__(self, frequencies, pairs):
        super().__init__(frequencies, pairs)
        self.of_heads = nn.LayerNorm(WIDTH // HEADS)

    def turn(self, x):
        return super().turn(self.of_heads(x))


@pytest.mark.parametrize(("way", "step"), [("complex", "view_as_complex"), ("axis", "stack"), ("axes", "flatten")])
def test_numbers_that_are_laid_in_pairs_to_be_turned_are_no_heads_once_more(way, step):
    model = Turned(make_powers(100.0), pairs=way)
    model.look = nn.ModuleList([LookNormed(make_powers(100.0), way)])
    reading = read_pass(xray.trace(model.eval(), torch.zeros(2, PLACES, dtype=torch.long)).passes[0])

    nodes = chart_stage(reading.flow, reading.towers[0].layers[0][0]).nodes
    queries = [node for node in nodes if node.label.endswith(" Q")]
    assert [node.label for node in queries] == ["NORM Q", "ROTATE Q"]
    assert {step.op for step in queries[-1].steps} >= {"unflatten", step}


def test_one_place_alone_is_turned_by_complex_numbers_and_scaled_by_none():
    model = Turned(make_powers(100.0), pairs="complex").eval()
    reading = read_pass(xray.trace(model, torch.zeros(2, 1, dtype=torch.long)).passes[0])

    nodes = chart_stage(reading.flow, reading.towers[0].layers[0][0]).nodes
    assert {"ROTATE Q", "ROTATE K"} <= {node.label for node in nodes}
    assert not any("SCALE" in node.label for node in nodes)
