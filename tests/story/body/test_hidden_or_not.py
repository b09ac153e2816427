"""Masks that look as if they hid the future and do not: too weak, turned round, or in the wrong place."""

import re

import pytest
import torch
from story.body.test_kept_waist import WIDTH, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

LENGTH, LONG = 7, 600
LOWEST = float("-inf")


class Heads(nn.Module):
    """Three heads, whose scores and weights are changed by a function each."""

    def __init__(self, hide=lambda scores: scores, change=lambda weights: weights):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.hide, self.change = hide, change

    def cut(self, rows):
        return rows.unflatten(-1, (3, -1)).transpose(1, 2)

    def keep(self, rows):
        return rows

    def forward(self, x):
        query = self.cut(self.query(x))
        key, value = (self.keep(self.cut(made(x))) for made in (self.key, self.value))
        weights = self.change(torch.softmax(self.hide(query @ key.mT / query.shape[-1] ** 0.5), dim=-1))
        return self.out((weights @ value).transpose(1, 2).flatten(2))


class Cached(Heads):
    """Behind the keys of the one query there is room for others."""

    def keep(self, rows):
        return torch.cat([rows, torch.zeros(1, 3, LENGTH - 1, rows.shape[-1])], dim=2)


def triangle(scores, diagonal=0):
    return torch.ones(scores.shape[-2:]).tril(diagonal)


def behind(scores):
    places = torch.arange(scores.shape[-1])
    return places[:, None] > places


def hides(scores):
    return scores.masked_fill(triangle(scores) == 0, LOWEST)


FAKES = {
    "multiplied": lambda scores: scores * triangle(scores),
    "too weak": lambda scores: scores.masked_fill(triangle(scores) == 0, 1e-9),
    "added as it is": lambda scores: scores + (1 - triangle(scores)),
}
TURNED = {
    "filled": lambda scores: scores.masked_fill(triangle(scores) == 1, LOWEST),
    "compared": lambda scores: scores.masked_fill(behind(scores), LOWEST),
    "chosen": lambda scores: torch.where(behind(scores), LOWEST, scores),
    "one too many": lambda scores: scores.masked_fill(triangle(scores, 1) == 0, LOWEST),
    "for one head": lambda scores: torch.cat([hides(scores[:, :1]), scores[:, 1:]], dim=1),
}

HELD = {
    "low": torch.full((LENGTH, LENGTH), LOWEST).triu(1),
    "bools": triangle(torch.zeros(LENGTH, LENGTH)) == 0,
    "ones": triangle(torch.zeros(LENGTH, LENGTH)),
    "whole": triangle(torch.zeros(LENGTH, LENGTH)).long(),
}
WRITTEN = {
    "a sum of bools": lambda scores: scores + ((scores.isnan() + (triangle(scores) == 0)) * -1e4),
    "a number made a tensor": lambda scores: scores + (triangle(scores) == 0).type_as(scores) * scores.new_tensor(-1e4),
    "beside padding": lambda scores: scores.masked_fill(scores.isnan(), LOWEST) + (1 - triangle(scores)) * -1e9,
    "beside what is padded": lambda scores: (
        scores + nn.functional.pad(scores, (1, 0))[..., 1:] - 1e9 * (1 - triangle(scores))
    ),
    "held low": lambda scores: scores + HELD["low"],
    "held bools": lambda scores: scores + HELD["bools"] * -1e9,
    "held ones": lambda scores: scores + (1 - HELD["ones"]) * -1e9,
    "held whole": lambda scores: scores + (1.0 - HELD["whole"]) * -1e9,
}
AHEAD = {
    "low": lambda scores: scores + HELD["low"].T,
    "bools": lambda scores: scores + ~HELD["bools"] * -1e9,
    "ones": lambda scores: scores + HELD["ones"] * -1e9,
    "not low": lambda scores: scores + HELD["bools"] * -1.0,
}


def record(attentions, length):
    layers = [Layer(attention) for attention in attentions]
    return xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), *layers), torch.arange(length)[None] % 11)


def look(hide, length=LENGTH, **more):
    return read_first(record([Heads(hide, **more)], length))


def read_first(trace):
    return xray.anatomy(trace).towers[0].branches[0]


def read_lines(*attentions, length=LENGTH):
    layout = compose_poster(record(attentions, length), text_width)
    return ["".join(run.text for run in line) for one in layout.boxes for line in one.lines]


@pytest.mark.parametrize("length", [LENGTH, LONG])
@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_what_is_not_low_enough_hides_nothing(fake, length):
    lines = read_lines(Heads(fake), Heads(fake), length=length)

    assert look(fake, length).causal is not True
    assert not any("ahead" in line or line.startswith("MASK") or "+ mask" in line or "hides" in line for line in lines)


@pytest.mark.parametrize("length", [LENGTH, LONG])
@pytest.mark.parametrize("hide", TURNED.values(), ids=TURNED)
def test_a_triangle_alone_proves_nothing_of_the_future(hide, length):
    assert look(hide, length).causal is not True
    assert look(hides, length).causal is True


@pytest.mark.parametrize("hide", WRITTEN.values(), ids=WRITTEN)
def test_what_hides_the_future_does_so_in_all_ways_in_which_people_write_it(hide):
    assert look(hide).causal is True


@pytest.mark.parametrize("hide", AHEAD.values(), ids=AHEAD)
def test_the_same_numbers_put_elsewhere_hide_no_future(hide):
    assert look(hide).causal is not True


@pytest.mark.parametrize(("others", "window"), [(False, 3), (True, None)])
def test_what_is_seen_beside_a_window_leaves_none(others, window):
    def hide(scores):
        places = torch.arange(scores.shape[-1])
        near = (places[:, None] - places).abs() <= 1
        seen = near | (places == 0) | (places[:, None] == 0) if others else near
        return scores.masked_fill(~seen, LOWEST)

    assert look(hide).window == window


class Told(nn.Module):
    """Adds low numbers to scores where a mask that it is given is True, or where it is not."""

    def __init__(self, is_shown):
        super().__init__()
        self.is_shown = is_shown

    def forward(self, scores, mask):
        low = (1 - mask.float()) * -1e9 if self.is_shown else mask.float() * -1e9
        return (scores + low).softmax(dim=-1)


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_mask_hides_where_it_is_made_low(is_shown):
    scores = torch.randn(LENGTH, LENGTH)
    trace = xray.trace(Told(is_shown), scores, triangle(scores) == float(is_shown))
    masks = [one.mask for step in trace.passes[0].leaves for one in step.inputs if one.mask is not None]

    assert {(mask.kind, mask.polarity) for mask in masks} == {
        ("causal", f"true_is_{'visible' if is_shown else 'hidden'}")
    }


class Given(nn.Module):
    """Adds a mask that it is given to the scores of its layers."""

    def __init__(self):
        super().__init__()
        self.words, self.held = nn.Embedding(11, WIDTH), [None]
        self.layers = nn.Sequential(*(Layer(Heads(lambda scores: scores + self.held[0])) for _ in range(2)))

    def forward(self, ids, mask):
        self.held[0] = mask
        return self.layers(self.words(ids))


@pytest.mark.parametrize(("slope", "places"), [(0.0, "none"), (0.5, None)])
def test_a_mask_that_is_given_may_tell_places_beside_what_it_hides(slope, places):
    far = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    trace = xray.trace(Given(), torch.arange(LENGTH)[None], HELD["low"] - slope * far.clamp(min=0))
    branch = read_first(trace)

    assert (branch.causal, branch.positions) == (True, places)


def test_numbers_that_are_given_as_a_mask_are_no_zeros_and_ones():
    far = torch.arange(float(LENGTH))[:, None] - torch.arange(LENGTH)
    layout = compose_poster(xray.trace(Given(), torch.arange(LENGTH)[None], far), text_width)

    assert not any("as 0 and 1" in run.text for one in layout.boxes for line in one.lines for run in line)


def test_what_some_queries_do_not_read_at_all_is_no_padding_of_keys():
    asks = torch.arange(LENGTH)[None, None, :, None] < LENGTH - 2
    lines = read_lines(*(Heads(lambda scores: scores.masked_fill(~asks, LOWEST)) for _ in range(2)))

    assert any(re.match(r"hides \d+% of its cells", line) for line in lines)
    assert not any("hides padding" in line for line in lines)


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores, seen: scores.masked_fill(~seen, LOWEST),
        lambda scores, seen: scores + (1 - seen.float()) * -10000,
        lambda scores, seen: torch.where(seen, scores, LOWEST),
        lambda scores, seen: scores.masked_fill((seen & seen.mT) == 0, -1e4),
    ],
)
def test_places_do_not_look_at_every_other_where_padding_is_hidden(hide):
    seen = torch.arange(LENGTH)[None, None, None] < LENGTH - 2

    assert "Places look at those that they may see." in read_lines(*(Heads(lambda one: hide(one, seen)) for _ in "ab"))


def test_a_mask_that_hides_nothing_leaves_every_place_to_look_at_every_other():
    seen = torch.ones(1, 1, 1, LENGTH, dtype=torch.bool)

    assert "Every place looks at every other." in read_lines(*(Heads(lambda one: one.masked_fill(~seen, LOWEST)),) * 2)


def test_where_places_see_themselves_alone_nothing_is_hidden_for_being_later():
    alone = torch.eye(LENGTH) == 0
    assert look(lambda scores: scores.masked_fill(alone, LOWEST)).causal is None


def test_weights_that_a_mask_makes_0_behind_softmax_are_not_said_to_be_of_all_places():
    lines = read_lines(*(Heads(change=lambda weights: weights * triangle(weights)) for _ in range(2)))

    assert "WEIGHTS MULTIPLIED" in lines
    assert not any("every other" in line or line.startswith("softmax(") for line in lines)


def test_what_half_of_the_layers_hide_is_not_said_of_every_place():
    lines = read_lines(Heads(hides), Heads(), Heads(hides), Heads())

    assert not {"Every place looks back, never ahead.", "Every place looks at every other."} & {*lines}


class AllBehind(Heads):
    """The first places look back among themselves, those behind them look at all in an attention beside."""

    def forward(self, x):
        query, key, value = (self.cut(made(x)) for made in (self.query, self.key, self.value))
        attend = nn.functional.scaled_dot_product_attention
        first = attend(query[:, :, :3], key[:, :, :3], value[:, :, :3], is_causal=True)
        found = [first, attend(query[:, :, 3:], key, value)]
        return self.out(torch.cat([one.transpose(1, 2) for one in found], dim=1).flatten(2))


def test_that_places_look_back_is_not_said_where_those_of_another_attention_see_all():
    lines = read_lines(AllBehind(), AllBehind(), length=11)

    assert "WITH ANOTHER ATTENTION BESIDE IT" in lines
    assert not any("never ahead" in line or "future" in line for line in lines)


def test_room_of_a_cache_that_one_query_does_not_see_is_not_called_padding():
    seen = torch.arange(LENGTH)[None, None, None] < 1
    trace = record([Cached(lambda scores: scores.masked_fill(~seen, LOWEST)) for _ in range(2)], 1)
    layout = compose_poster(trace, text_width)
    lines = ["".join(run.text for run in line) for one in layout.boxes for line in one.lines]

    assert any(re.match(r"hides \d+% of its cells", line) for line in lines)
    assert not any("hides padding" in line for line in lines)
