"""A mask is called one, and what it hides padding or the future, where that is proven; else the plain word stands."""

import pytest
import torch
from story.endings import list_labels
from torch import nn
from torch.nn.functional import pad

import xray
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

BATCH, PLACES, WIDTH, HEADS, PADDED = 3, 7, 24, 4, 2


class Look(nn.Module):
    """Attention of which scores and weights are changed by a function each, over rows that may be turned round."""

    def __init__(self, hide, change, *, is_turned):
        super().__init__()
        self.hide, self.change, self.is_turned = hide, change, is_turned
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.of_edges, self.cost = nn.Embedding(PLACES, HEADS), nn.Parameter(torch.zeros(1))
        self.near, self.slots = (nn.Parameter(torch.rand(size)) for size in ((2 * PLACES, HEADS), (PLACES - 1, 6)))
        self.of_pairs = nn.Linear(2, HEADS)
        self.register_buffer("places", torch.rand(PLACES, 2))

    def forward(self, x, ids, given):
        rows = x.flip(1) if self.is_turned else x
        q, k, v = (one(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        weights = self.change(self.hide(self, q @ k.mT, ids, given).softmax(-1), given)
        found = self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + (found.flip(1) if self.is_turned else found)


class Layers(nn.Module):
    def __init__(self, hide=lambda look, scores, *_: scores, change=lambda weights, _: weights, *, is_turned=False):
        super().__init__()
        self.words = nn.Embedding(11, WIDTH)
        self.looks = nn.ModuleList(Look(hide, change, is_turned=is_turned) for _ in range(2))

    def forward(self, ids, given=None):
        x = self.words(ids)
        for look in self.looks:
            x = look(x, ids, given)
        return x


def read(*made, given=None, **options):
    ids = torch.randint(1, 11, (BATCH, PLACES), generator=torch.Generator().manual_seed(1))
    ids[1, -PADDED:] = 0
    trace = xray.trace(Layers(*made, **options).eval(), ids, *([] if given is None else [given]))
    boxes = compose_poster(trace, text_width).boxes
    return list_labels(trace), {
        "".join(run.text for run in line).partition(":")[0] for one in boxes for line in one.lines
    }


def by_distance(look):
    count = torch.arange(PLACES)
    return look.near[count[:, None] - count + PLACES].permute(2, 0, 1)


def by_edges(look, given):
    return look.of_edges(given).permute(0, 3, 1, 2)


EDGES = (torch.arange(PLACES)[:, None] - torch.arange(PLACES)).abs().expand(BATCH, -1, -1).contiguous()
TRIANGLE = torch.ones(PLACES, PLACES).triu(1)
ADDED = {
    "low where ids are 0, yet not low enough": (lambda look, one, ids, _: one + (ids == 0)[:, None, None] * -2.0, None),
    "ones and zeros given": (lambda look, one, _, given: one + given[:, None], (EDGES > 1).float()),
    "numbers given": (lambda look, one, _, given: one + given[:, None], torch.rand(BATCH, PLACES, PLACES)),
    "learned ahead": (lambda look, one, *_: one + look.cost * TRIANGLE, None),
    "edges that lie like distances": (lambda look, one, _, given: one + by_edges(look, given), EDGES),
    "sums of places": (
        lambda look, one, *_: one + look.of_pairs(look.places[:, None] + look.places).permute(2, 0, 1),
        None,
    ),
    "rows of slots": (
        lambda look, one, *_: one + (one @ one.mT)[..., :6] @ pad(look.slots, (0, 0, 0, 1)).mT,
        None,
    ),
    "distances and edges at once": (
        lambda look, one, _, given: one + (by_distance(look) + by_edges(look, given)),
        EDGES.flip(2),
    ),
}


@pytest.mark.parametrize(("add", "given"), ADDED.values(), ids=ADDED)
def test_what_is_not_proven_to_hide_or_to_tell_places_is_a_bias(add, given):
    labels, lines = read(add, given=given)

    assert any(label.startswith(("+ A BIAS", "+ WHAT IS MADE OF THE SCORES")) for label in labels)
    assert not any(label.startswith(("MASK", "+ BIAS OF")) for label in labels)
    assert not any("how far apart" in line for line in lines)


def test_of_two_biases_the_one_by_distance_alone_is_called_so():
    labels, _ = read(lambda look, one, _, given: one + by_distance(look) + by_edges(look, given), given=EDGES)

    told = [label.partition("  ")[0] for label in labels if "BIAS" in label]
    assert told[:2] == ["+ BIAS OF RELATIVE PLACES", "+ A BIAS"]


def test_a_learned_number_where_a_condition_holds_is_no_mask():
    labels, lines = read(lambda look, one, ids, _: torch.where((ids != 0)[:, None, None], one, look.cost))

    assert any(label.startswith("A NUMBER WHERE A MASK SAYS SO") for label in labels)
    assert "what may not be seen is pushed far down" not in " ".join(lines)


HIDDEN = {
    "given keys": (lambda look, one, _, given: one.masked_fill(given[:, None, None], -1e9), EDGES[:, 2] == 1),
    "the first keys": (
        lambda look, one, ids, _: one.masked_fill((ids * 0 + torch.arange(7) < 2)[:, None, None], -1e9),
        None,
    ),
    "ids amid others": (lambda look, one, ids, _: one.masked_fill((ids % 3 == 0)[:, None, None], -1e9), None),
    "each place itself": (lambda look, one, *_: one.masked_fill(torch.eye(PLACES, dtype=torch.bool), -1e9), None),
}


@pytest.mark.parametrize(("hide", "given"), HIDDEN.values(), ids=HIDDEN)
def test_keys_that_are_not_proven_to_be_padding_are_only_hidden(hide, given):
    _, lines = read(hide, given=given)

    assert any(line.startswith("hides ") and line.split()[1][:-1].isdecimal() for line in lines)
    assert not any("padding" in line for line in lines)


PADDING = {
    "ids": (lambda look, one, ids, _: one.masked_fill((ids == 0)[:, None, None], -1e9), None),
    "lengths": (
        lambda look, one, ids, given: one.masked_fill((torch.arange(PLACES) >= given[:, None])[:, None, None], -1e9),
        torch.tensor([7, 5, 4]),
    ),
}


@pytest.mark.parametrize(("hide", "given"), PADDING.values(), ids=PADDING)
def test_keys_at_the_end_that_ids_or_lengths_tell_are_padding(hide, given):
    assert "hides padding" in read(hide, given=given)[1]


@pytest.mark.parametrize("is_turned", [True, False])
def test_what_a_triangle_hides_is_the_future_where_rows_are_in_order(is_turned):
    _, lines = read(lambda look, one, *_: one.masked_fill(TRIANGLE > 0, -torch.inf), is_turned=is_turned)

    assert ("hides the future" in lines) == (not is_turned)


def test_weights_that_become_0_below_a_bound_are_told_and_have_no_formula():
    labels, lines = read(change=lambda weights, _: torch.where(weights > 0.1, weights, torch.zeros_like(weights)))

    assert any(label.startswith("A NUMBER WHERE A MASK SAYS SO") for label in labels)
    assert not any(line.startswith("softmax(") for line in lines)


def test_weights_that_a_number_for_each_key_multiplies_are_only_multiplied():
    labels, _ = read(change=lambda weights, given: weights * given[:, None, None], given=torch.rand(BATCH, PLACES))

    assert "WEIGHTS MULTIPLIED" in labels


class Blocks(nn.Module):
    """Places that look at those of their own half alone, by a tensor that a module holds (UP-DETR's queries)."""

    def __init__(self):
        super().__init__()
        halves = torch.arange(PLACES) > PLACES // 2
        self.hidden = torch.zeros(PLACES, PLACES).masked_fill(halves[:, None] != halves, float("-inf"))
        self.looks = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))

    def forward(self, x):
        for look in self.looks:
            x = x + look(x, x, x, attn_mask=self.hidden)[0]
        return x


def test_a_tensor_of_halves_that_a_module_holds_is_a_mask():
    torch.manual_seed(0)
    trace = xray.trace(Blocks().eval(), torch.rand(BATCH, PLACES, WIDTH))
    labels = list_labels(trace_from_json(trace_to_json(trace)))

    assert any(label.startswith("MASK") for label in labels)
    assert not any(label.startswith("+ A BIAS") for label in labels)
