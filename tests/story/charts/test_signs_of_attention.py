"""Attentions with all the signs of a claim, of which it is not true: nothing of it is said."""

import pytest
import torch
from printed import words_of
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

BATCH, HEADS, PLACES, D_K, VOCAB = 2, 3, 7, 10, 53
WIDTH = HEADS * D_K
SHARES = "each row shares out one whole of attention"
SUMS_TO_1, DISTANCE, ALIBI, ROTARY = "each row sums to 1", "Relative places", "ALiBi:", "Rotary places"


class Layer(nn.Module):
    """An attention whose way from queries, keys and values to what the heads found is given, and a feed-forward."""

    def __init__(self, look, extra):
        super().__init__()
        self.look, self.extra = look, extra
        self.norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.wider, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (HEADS, D_K)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(self.look(q, k, v, self.extra).transpose(1, 2).flatten(2))
        return x + self.back(functional.gelu(self.wider(x)))


class Model(nn.Module):
    """Words, what is added to them, two layers, and a head."""

    def __init__(self, look, *, extra=lambda: None, add=lambda x, held: x, held=None):
        super().__init__()
        self.words, self.head, self.add = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB), add
        self.held = held if isinstance(held, nn.Module | nn.Parameter) else None
        self.register_buffer("sines", held if isinstance(held, torch.Tensor) and self.held is None else None)
        self.layers = nn.ModuleList(Layer(look, extra()) for _ in range(2))

    def forward(self, ids):
        x = self.add(self.words(ids), self.sines if self.held is None else self.held)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def read_poster(*given, **options):
    trace = xray.trace(Model(*given, **options).eval(), torch.arange(BATCH * PLACES).view(BATCH, PLACES))
    return words_of(compose_poster(trace, text_width))


def score(q, k):
    return q @ k.transpose(-2, -1) / D_K**0.5


def plain(q, k, v, extra=None):
    return score(q, k).softmax(-1) @ v


def through(bend):
    return lambda q, k, v, extra: bend(score(q, k)).softmax(-1) @ v


LOOKING_OTHERWISE = {
    "shared out over queries": lambda q, k, v, extra: score(q, k).softmax(-2) @ v,
    "turned behind": lambda q, k, v, extra: score(q, k).softmax(-1).transpose(-2, -1) @ v,
    "over all pairs": lambda q, k, v, extra: score(q, k).flatten(-2).softmax(-1).unflatten(-1, (PLACES, PLACES)) @ v,
    "scaled behind": lambda q, k, v, extra: ((q @ k.transpose(-2, -1)).softmax(-1) / D_K**0.5) @ v,
    "cut behind": lambda q, k, v, extra: (score(q, k).softmax(-1) * torch.ones(PLACES, PLACES).tril()) @ v,
    "bent": through(torch.tanh),
    "bent and scaled": through(lambda scores: 10 * torch.tanh(scores)),
    "clamped": through(lambda scores: scores.clamp(-5, 5)),
    "capped, then scaled": lambda q, k, v, extra: (50 * torch.tanh(q @ k.mT / 50) / D_K**0.5).softmax(-1) @ v,
    "hidden, then capped": through(lambda scores: 50 * torch.tanh((scores + torch.ones(7, 7).triu(1) * -1e9) / 50)),
}


@pytest.mark.parametrize("look", LOOKING_OTHERWISE.values(), ids=LOOKING_OTHERWISE)
def test_an_attention_that_does_more_or_else_has_no_formula_of_one_that_does_not(look):
    assert SUMS_TO_1 in read_poster(plain)
    assert SUMS_TO_1 not in read_poster(look)


@pytest.mark.parametrize("first", [0, 2])
def test_rows_that_see_nothing_share_out_no_whole(first):
    may_see = torch.ones(PLACES, PLACES, dtype=torch.bool).tril() & (torch.arange(PLACES) >= first)
    told = read_poster(lambda q, k, v, _: functional.scaled_dot_product_attention(q, k, v, may_see))

    assert (SUMS_TO_1 in told) == (SHARES in told) == (first == 0)


AHEAD = torch.ones(PLACES, PLACES, dtype=torch.bool).triu(1)
FROM_OUTSIDE = {one: (AHEAD | (one & (torch.arange(PLACES) < 2))[:, None]) * -1e9 for one in (False, True)}
LOOKS_BACK, PUSHED = "looks back, never ahead", "what may not be seen is pushed far down"
INFINITY = float("inf")


def fused(q, k, v, mask):
    return functional.scaled_dot_product_attention(q, k, v, mask)


def weigh(scores, v):
    return scores.softmax(-1) @ v


FINITE = {
    "filled once": lambda q, k, v, rows: weigh(score(q, k).masked_fill(AHEAD | rows, -1e9), v),
    "filled twice": lambda q, k, v, rows: weigh(score(q, k).masked_fill(rows, -1e9).masked_fill(AHEAD, -1e9), v),
    "chosen": lambda q, k, v, rows: weigh(torch.where(AHEAD | rows, torch.tensor(-(2.0**32)), score(q, k)), v),
    "added": lambda q, k, v, rows: weigh(score(q, k) + (AHEAD | rows) * -1e9, v),
    "added from outside": lambda q, k, v, rows: weigh(score(q, k) + FROM_OUTSIDE[bool(rows.any())], v),
    "in a kernel": lambda q, k, v, rows: fused(q, k, v, (AHEAD | rows) * -1e9),
    "in a kernel, from outside": lambda q, k, v, rows: fused(q, k, v, FROM_OUTSIDE[bool(rows.any())]),
}
INFINITE = {
    "filled": lambda q, k, v, rows: score(q, k).masked_fill(AHEAD | rows, -INFINITY).softmax(-1).nan_to_num() @ v,
    "in a kernel": lambda q, k, v, rows: fused(q, k, v, torch.zeros(AHEAD.shape).masked_fill(AHEAD | rows, -INFINITY)),
    "bools in a kernel": lambda q, k, v, rows: fused(q, k, v, ~(AHEAD | rows)),
}


def read_hidden(look, first):
    return read_poster(lambda q, k, v, _: look(q, k, v, (torch.arange(PLACES) < first)[:, None]))


@pytest.mark.parametrize("look", FINITE.values(), ids=FINITE)
@pytest.mark.parametrize("first", [0, 2])
def test_rows_of_which_finite_numbers_hide_all_keys_look_ahead(look, first):
    told = read_hidden(look, first)

    assert (LOOKS_BACK in told) == (first == 0)
    assert first == 0 or PUSHED not in told


@pytest.mark.parametrize("look", INFINITE.values(), ids=INFINITE)
def test_rows_whose_weights_become_0_look_at_nothing_ahead(look):
    told = read_hidden(look, 2)

    assert LOOKS_BACK in told
    assert PUSHED in told


def test_scores_times_a_triangle_are_hidden_by_no_mask():
    poster = read_poster(through(lambda scores: scores * torch.ones(PLACES, PLACES).tril()))

    assert "MASK" not in poster
    assert "mask" not in poster


def added(make):
    return lambda q, k, v, extra: (score(q, k) + make(extra)).softmax(-1) @ v


def apart():
    return torch.arange(PLACES) - torch.arange(PLACES)[:, None]


def table(*shape):
    return lambda: nn.ParameterList([nn.Parameter(torch.zeros(shape))])


NO_DISTANCES = {
    "a number for each pair": (lambda held: held[0], table(1, HEADS, PLACES, PLACES)),
    "for each key": (lambda held: held[0], table(1, 1, 1, PLACES)),
    "for each head": (lambda held: held[0], table(1, HEADS, 1, 1)),
    "by both places": (
        lambda held: held(torch.arange(PLACES) + torch.arange(PLACES)[:, None]).permute(2, 0, 1),
        lambda: nn.Embedding(2 * PLACES, HEADS),
    ),
}


@pytest.mark.parametrize(("make", "extra"), NO_DISTANCES.values(), ids=NO_DISTANCES)
def test_learned_numbers_that_go_by_no_distance_tell_none(make, extra):
    assert DISTANCE not in read_poster(added(make), extra=extra)


def test_learned_numbers_by_distance_tell_it():
    poster = read_poster(
        added(lambda held: held(apart() + PLACES).permute(2, 0, 1)), extra=lambda: nn.Embedding(2 * PLACES, HEADS)
    )

    assert DISTANCE in poster


SLOPES = torch.tensor([0.5, 0.25, 0.125])[:, None, None]
SLOPED = {
    "evenly": (lambda held: -SLOPES * apart().abs(), True),
    "by squares": (lambda held: -SLOPES * apart() ** 2, False),
    "by logarithms": (lambda held: -SLOPES * torch.log1p(apart().abs()), False),
    "by waves": (lambda held: torch.sin(SLOPES * apart()), False),
    "by queries alone": (lambda held: SLOPES * torch.arange(PLACES)[:, None], False),
    "by sequences alone": (lambda held: SLOPES * torch.arange(BATCH)[:, None, None, None], False),
}


@pytest.mark.parametrize(("make", "is_told"), SLOPED.values(), ids=SLOPED)
def test_slopes_are_told_where_numbers_rise_evenly_with_the_distance(make, is_told):
    assert (ALIBI in read_poster(added(make))) == is_told


def angles(places):
    turn = torch.outer(places.float(), 10000.0 ** -(torch.arange(0, D_K, 2) / D_K))
    return torch.cat((turn, turn), -1)


def swap(x):
    one, other = x.chunk(2, -1)
    return torch.cat((-other, one), -1)


def turned(turn):
    return lambda q, k, v, extra: plain(turn(q), turn(k), v)


def turn_by(places, x):
    return x * angles(places).cos() + swap(x) * angles(places).sin()


TURNED = {
    "by places": (lambda x: turn_by(torch.arange(PLACES), x), True),
    "by one place": (lambda x: turn_by(torch.ones(1), x), False),
    "by sequences": (
        lambda x: (
            x * angles(torch.arange(BATCH)).cos()[:, None, None]
            + swap(x) * angles(torch.arange(BATCH)).sin()[:, None, None]
        ),
        False,
    ),
    "by no sine": (
        lambda x: x * angles(torch.arange(PLACES)).cos() + swap(x) * angles(torch.arange(PLACES)).cos(),
        False,
    ),
    "nothing taken off": (
        lambda x: (
            x * angles(torch.arange(PLACES)).cos()
            + torch.cat(x.chunk(2, -1)[::-1], -1) * angles(torch.arange(PLACES)).sin()
        ),
        False,
    ),
    "by nothing": (lambda x: x * torch.ones(PLACES, D_K) + swap(x) * torch.zeros(PLACES, D_K), False),
}


@pytest.mark.parametrize(("turn", "is_told"), TURNED.values(), ids=TURNED)
def test_rows_are_turned_by_their_place_where_a_turn_differs_from_place_to_place(turn, is_told):
    poster = read_poster(turned(turn))

    assert (ROTARY in poster) == is_told
    assert ("turned by their place" in poster) == is_told


def sines(places):
    angle = torch.outer(torch.arange(places).float(), 100.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH))
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


ALIKE_AT_ALL_PLACES = {
    "sines by sequence": (lambda x, held: x + held[: x.shape[0]], sines(20)[:, None]),
    "sines of one place": (lambda x, held: x + sines(1), None),
    "rows by sequence": (lambda x, held: x + held(torch.arange(x.shape[0]))[:, None], nn.Embedding(20, WIDTH)),
    "the last row": (lambda x, held: x + held[:, -1:], nn.Parameter(torch.zeros(1, 20, WIDTH))),
}


@pytest.mark.parametrize(("add", "held"), ALIKE_AT_ALL_PLACES.values(), ids=ALIKE_AT_ALL_PLACES)
def test_what_is_added_alike_at_all_places_of_a_sequence_tells_no_places(add, held):
    poster = read_poster(plain, add=add, held=held)

    assert not any(told in poster for told in ("places are added", "PLACES", "of places", "of a fixed table"))


def test_the_larger_of_an_unknown_number_and_a_known_one_is_unknown():
    poster = read_poster(
        added(lambda held: held(torch.max(-apart(), torch.zeros(1, dtype=torch.long))).permute(2, 0, 1)),
        extra=lambda: nn.Embedding(PLACES, HEADS),
    )

    assert DISTANCE in poster
