"""Turns of queries and keys: each pair by a table of 2 × 2 (Perception Encoder), by places, or by heads."""

import pytest
import torch
from story.body.test_mistaken import HEADS, PLACES, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.sentences.attentions.of_places import describe_rotary


class TurnedPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        q, k = ((one.unflatten(-1, (-1, 1, 2)) * tables).sum(-1).flatten(-2) for one in (q, k))
        made = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.think = nn.Embedding(19, WIDTH), nn.ModuleList(FeedForwardPart() for _ in range(2))
        self.look = nn.ModuleList(TurnedPart() for _ in range(2))

    def forward(self, ids):
        angles = torch.arange(PLACES)[:, None] * torch.tensor([1.0, 0.1])
        cos, sin = angles.cos(), angles.sin()
        tables = torch.stack((cos, -sin, sin, cos), -1).unflatten(-1, (2, 2))
        x = self.words(ids)
        for look, think in zip(self.look, self.think, strict=True):
            x = think(look(x, tables))
        return x


def test_pairs_that_are_turned_by_tables_are_rotary_places():
    trace = xray.trace(Turned().eval(), torch.zeros(2, PLACES, dtype=torch.long))

    (tower,) = anatomy(trace).towers

    assert [one.positions for one in tower.branches if isinstance(one, Attention)] == ["rotary"]


def test_pairs_that_are_turned_stand_in_one_box():
    trace = xray.trace(Turned().eval(), torch.zeros(2, PLACES, dtype=torch.long))
    reading = read_pass(trace.passes[0])

    labels = [node.label for node in chart_stage(reading.flow, reading.towers[0].stagings[0]).nodes]

    assert {"ROTATE Q", "ROTATE K"} <= set(labels)
    assert not any(label.startswith(("COMBINE", "ADDED")) or "SUM" in label for label in labels)


class PartedPart(TurnedPart):
    """The first number of each pair and the second are taken apart, turned, and laid beside each other again (Llama 2).

    They come together at once, or each is written where it was.
    """

    def __init__(self, *, writes):
        super().__init__()
        self.writes = writes

    def forward(self, x, tables):
        q, k, v = (one.unflatten(-1, (HEADS, -1)) for one in self.qkv(self.norm(x)).chunk(3, -1))
        cos, sin = (tables[:, None, :, 0, 0], tables[:, None, :, 1, 0])
        q, k = (self.turn(one, cos, sin) for one in (q, k))
        made = functional.scaled_dot_product_attention(*(one.transpose(1, 2) for one in (q, k, v)))
        return x + self.out(made.transpose(1, 2).flatten(-2))

    def turn(self, rows, cos, sin):
        first, second = rows.reshape(*rows.shape[:-1], -1, 2).unbind(-1)
        turned = first * cos - second * sin, first * sin + second * cos
        if not self.writes:
            return torch.stack(turned, -1).flatten(3)
        made = torch.empty_like(rows)
        made[..., 0::2], made[..., 1::2] = turned
        return made


@pytest.mark.parametrize("writes", [False, True])
def test_heads_whose_pairs_are_taken_apart_are_shown_whole(writes):
    model = Turned()
    model.look = nn.ModuleList(PartedPart(writes=writes) for _ in range(2))
    reading = read_pass(xray.trace(model.eval(), torch.zeros(2, PLACES, dtype=torch.long)).passes[0])

    nodes = {node.label: node for node in chart_stage(reading.flow, reading.towers[0].stagings[0]).nodes}
    heads = next(node for label, node in nodes.items() if label.startswith("HEADS Q"))
    assert heads.record.shape == (2, PLACES, HEADS, WIDTH // HEADS)
    assert "unbind" in {step.op for step in nodes["ROTATE Q"].steps}


class HalvesPart(TurnedPart):
    """Turns by cosine and sine, the halves of each head beside each other."""

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        q, k = (one * tables.cos() + self.swap_halves(one) * tables.sin() for one in (q, k))
        made = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))

    def swap_halves(self, rows):
        first, second = rows.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)


class ScaledPart(HalvesPart):
    """Multiplies both products of a turn by a number before it adds them up (x-transformers: by 1)."""

    by = 1.0

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        q, k = (one * tables.cos() * self.by + self.swap_halves(one) * tables.sin() * self.by for one in (q, k))
        made = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))


class TwicePart(ScaledPart):
    by = 2.0


class LengthenedPart(HalvesPart):
    """Multiplies both products of a turn by one number for each place, and those of keys by 1 ÷ it (xPos)."""

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        by = 0.9 ** torch.arange(PLACES)[:, None].expand(PLACES, WIDTH // HEADS)
        q, k = (
            one * tables.cos() * scale + self.swap_halves(one) * tables.sin() * scale
            for one, scale in ((q, by), (k, by**-1))
        )
        made = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))


class TurnedAgainPart(HalvesPart):
    """Turns queries once more (what a learner writes)."""

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        q, k = (self.turn(one, tables.cos(), tables.sin()) for one in (q, k))
        made = functional.scaled_dot_product_attention(self.turn(q, tables.cos(), tables.sin()), k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))

    def turn(self, rows, cos, sin):
        return rows * cos + self.swap_halves(rows) * sin


class TurnedBackPart(TurnedAgainPart):
    """Turns keys the other way round."""

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        q, k = self.turn(q, tables.cos(), tables.sin()), self.turn(k, tables.cos(), -tables.sin())
        made = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))


@pytest.mark.parametrize(
    ("part", "positions"),
    [
        (ScaledPart, "rotary"),
        (TwicePart, None),
        (LengthenedPart, "rotary"),
        (TurnedAgainPart, None),
        (TurnedBackPart, None),
    ],
)
def test_products_of_a_turn_may_be_multiplied_by_one_or_by_their_place_and_turn_queries_as_they_turn_keys(
    part, positions
):
    model = Stilled(1.0, 0.1)
    model.look = nn.ModuleList(part() for _ in range(2))
    whole = anatomy(xray.trace(model.eval(), torch.zeros(2, PLACES, dtype=torch.long)))

    assert {one.positions for one in whole.towers[0].branches if isinstance(one, Attention)} == {positions}


class ValuesPart(HalvesPart):
    """Turns values as it turns queries and keys (CLVP)."""

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        q, k, v = (one * tables.cos() + self.swap_halves(one) * tables.sin() for one in (q, k, v))
        made = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))


class OfOnePart(HalvesPart):
    """Turns all three as one tensor, where the angles of values may be 0 (DiT of BD3-LM)."""

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).transpose(1, 3)
        angles = tables * torch.tensor([1.0, 1.0, 0.0])[:, None, None]
        rows = rows * angles.cos() + self.swap_halves(rows) * angles.sin()
        made = functional.scaled_dot_product_attention(*rows.unbind(2))
        return x + self.out(made.transpose(1, 2).flatten(-2))


@pytest.mark.parametrize(
    ("parts", "turned", "told"),
    [
        ((OfOnePart, OfOnePart), [None], "queries and keys are turned by their place."),
        ((HalvesPart, HalvesPart), [None], "queries and keys are turned by their place."),
        ((ValuesPart, ValuesPart), [True], "queries, keys and values are turned by their place."),
        ((HalvesPart, ValuesPart), [None, True], "queries and keys, in some of them values too, are turned by"),
    ],
)
def test_that_values_are_turned_too_is_told(parts, turned, told):
    model = Stilled(1.0, 0.1)
    model.look = nn.ModuleList(part() for part in parts)
    whole = anatomy(xray.trace(model.eval(), torch.zeros(2, PLACES, dtype=torch.long)))

    assert [one.values_turned for one in whole.towers[0].branches if isinstance(one, Attention)] == turned
    assert told in describe_rotary(whole)


class Angled(Turned):
    """The angles of the turns are those of places, or of heads (NeuCodec)."""

    def __init__(self, *, by_head):
        super().__init__()
        self.look, self.by_head = nn.ModuleList(HalvesPart() for _ in range(2)), by_head

    def forward(self, ids):
        angles = torch.arange(HEADS if self.by_head else PLACES)[:, None] * torch.ones(WIDTH // HEADS)
        x = self.words(ids)
        for look, think in zip(self.look, self.think, strict=True):
            x = think(look(x, angles[:, None] if self.by_head else angles))
        return x


@pytest.mark.parametrize("by_head", [True, False])
def test_a_turn_by_the_number_of_a_head_tells_no_places(by_head):
    trace = xray.trace(Angled(by_head=by_head).eval(), torch.zeros(2, PLACES, dtype=torch.long))

    (tower,) = anatomy(trace).towers
    (look,) = (one for one in tower.branches if isinstance(one, Attention))

    assert (look.positions, look.turned_by_head) == ((None, True) if by_head else ("rotary", None))
    reading = read_pass(trace.passes[0])
    labels = {node.label for node in chart_stage(reading.flow, reading.towers[0].stagings[0]).nodes}
    assert {"ROTATE Q", "ROTATE K"} <= labels


class Stilled(Turned):
    """Some of the frequencies may be 0: what they would turn stays as it is (Gemma 4)."""

    def __init__(self, *frequencies):
        super().__init__()
        self.look = nn.ModuleList(HalvesPart() for _ in range(2))
        self.frequencies = nn.Buffer(torch.tensor(frequencies))

    def forward(self, ids):
        angles = torch.arange(ids.shape[1])[:, None].float() * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        x = self.words(ids)
        for look, think in zip(self.look, self.think, strict=True):
            x = think(look(x, angles))
        return x


@pytest.mark.parametrize(("frequencies", "turned"), [((0.5, 0.0), 2), ((0.5, 0.25), None), ((1.0, 0.0), None)])
def test_numbers_that_a_frequency_of_0_turns_stay_as_they_are(frequencies, turned):
    """Whole numbers may as well be places, of which the first is 0."""
    trace = xray.trace(Stilled(*frequencies).eval(), torch.zeros(2, PLACES, dtype=torch.long))

    (tower,) = anatomy(trace).towers
    (look,) = (one for one in tower.branches if isinstance(one, Attention))

    assert (look.positions, look.turned, look.d_k) == ("rotary", turned, 4)


class GivenPart(HalvesPart):
    """Turns by cosines and sines as they are given."""

    def forward(self, x, tables):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.transpose(1, 2) for one in rows.unbind(-3))
        q, k = (one * tables[0] + self.swap_halves(one) * tables[1] for one in (q, k))
        made = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(made.transpose(1, 2).flatten(-2))


class InFront(Turned):
    """Rows in front of all others are turned by learned angles (MLCD's class), or by those of places as all are."""

    def __init__(self, learned, *, more=False):
        super().__init__()
        self.look = nn.ModuleList(GivenPart() for _ in range(2))
        self.front = nn.Parameter(torch.ones(learned, 2)) if learned else None
        self.more = nn.Parameter(torch.ones(WIDTH)) if more else None

    def forward(self, ids):
        own = 0 if self.front is None else len(self.front)
        angles = (torch.arange(PLACES - own)[:, None] * torch.tensor([1.0, 0.1])).repeat(1, 2)
        tables = angles.cos(), angles.sin()
        if self.front is not None:
            front = torch.cat((self.front, self.front), -1)
            tables = torch.cat((front.cos(), tables[0])), torch.cat((front.sin(), tables[1]))
        x = self.words(ids) if self.more is None else self.words(ids) + self.more
        for look, think in zip(self.look, self.think, strict=True):
            x = think(look(x, tables))
        return x


@pytest.mark.parametrize(
    ("learned", "more", "found", "told"),
    [
        (1, False, (1, 2), "by their place, those of the first row by 2 learned angles."),
        (3, False, (3, 6), "by their place, those of the first 3 rows by 6 learned angles."),
        (1, True, (1, None), "by their place, those of the first row by learned angles."),
        (0, False, None, "by their place."),
    ],
)
def test_rows_that_learned_angles_turn_are_told(learned, more, found, told):
    whole = anatomy(xray.trace(InFront(learned, more=more).eval(), torch.zeros(2, PLACES, dtype=torch.long)))

    assert [one.turned_by_learned for one in whole.towers[0].branches if isinstance(one, Attention)] == [found]
    assert told in describe_rotary(whole)


class TurnedByWays(nn.Module):
    """The first two rows and the others are turned apart, each so many numbers of a head of four, and joined."""

    def __init__(self, *shares):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.shares = shares

    def turn(self, x, first, share):
        angles = (first + torch.arange(x.shape[-2]).float()[:, None]).repeat(1, share)
        part, rest = x[..., :share], x[..., share:]
        moved = torch.cat((-part[..., share // 2 :], part[..., : share // 2]), -1)
        turned = part * angles.cos() + moved * angles.sin()
        return torch.cat([turned, rest], -1) if share < x.shape[-1] else turned

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (2, 4)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        ways = ((slice(None, 2), 0, self.shares[0]), (slice(2, None), 2, self.shares[1]))
        q, k = (torch.cat([self.turn(one[:, :, rows], *how) for rows, *how in ways], 2) for one in (q, k))
        weights = (q @ k.transpose(-2, -1) / 2).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("shares", "told"), [((2, 2), 2), ((2, 4), None), ((4, 2), None), ((4, 4), None)])
def test_a_share_of_a_head_is_turned_where_it_is_so_of_all_rows(shares, told):
    model = nn.Sequential(TurnedByWays(*shares), nn.LayerNorm(8), TurnedByWays(*shares))
    branches = anatomy(xray.trace(model.eval(), torch.rand(2, 5, 8))).towers[0].branches

    assert {(one.positions, one.turned) for one in branches if isinstance(one, Attention)} == {("rotary", told)}
