"""What is added to scores is called one of relative places where it is one, and else a bias (DeepSeek-V3, OpenFold)."""

import pytest
import torch
from printed import words_of
from story.endings import list_labels
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.where import attentions

BATCH, PLACES, WIDTH, HEADS, NARROW = 2, 5, 12, 3, 4


class Look(nn.Module):
    """Attention to whose scores something is added that is made of its rows, of pairs that it is given, or of neither.

    Learned numbers for each distance lie in a table; `pairs` has numbers for each pair of places.
    """

    def __init__(self, add):
        super().__init__()
        self.add, self.back = add, nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.asks, self.offers = nn.Linear(WIDTH, HEADS * NARROW), nn.Linear(WIDTH, NARROW)
        self.of_pairs, self.of_keys = nn.Linear(NARROW, HEADS), nn.Linear(WIDTH, HEADS)
        self.table = nn.Parameter(torch.rand(2 * PLACES - 1, NARROW))

    def forward(self, x, pairs):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        weights = (q @ k.transpose(-1, -2) + self.add(self, x, pairs)).softmax(-1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))


def by_two_of_rows(look, x, _):
    return look.asks(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) @ look.offers(x).transpose(1, 2)[:, None]


def by_keys(look, x, _):
    return look.of_keys(x).transpose(1, 2)[:, :, None]


def by_given_pairs(look, _, pairs):
    return look.of_pairs(pairs).permute(0, 3, 1, 2)


def by_differences_of_the_given(look, _, pairs):
    at = pairs[:, :, 0]
    return look.of_pairs(at[:, :, None] - at[:, None]).permute(0, 3, 1, 2)


def by_distance(look, x, _):
    count = torch.arange(PLACES)
    rows = look.table[count[None] - count[:, None] + PLACES - 1]
    return torch.einsum("bhqd,qkd->bhqk", look.asks(x).unflatten(-1, (HEADS, -1)).transpose(1, 2), rows)


class Layers(nn.Module):
    def __init__(self, add):
        super().__init__()
        self.words, self.looks = nn.Embedding(11, WIDTH), nn.ModuleList(Look(add) for _ in range(2))

    def forward(self, ids, pairs):
        x = self.words(ids)
        for look in self.looks:
            x = x + look(x, pairs)
        return x


WAYS = [
    (by_two_of_rows, None),
    (by_keys, None),
    (by_given_pairs, None),
    (by_differences_of_the_given, "relative"),
    (by_distance, "relative"),
]


@pytest.mark.parametrize(("add", "positions"), WAYS)
def test_a_bias_is_one_of_places_where_it_is_made_of_them(add, positions):
    ids, pairs = torch.zeros(BATCH, PLACES, dtype=torch.long), torch.rand(BATCH, PLACES, PLACES, NARROW)
    told = anatomy(xray.trace(Layers(add).eval(), ids, pairs))

    assert {one.positions for one in attentions(told)} == {positions}
    assert any("how far apart" in sentence for sentence in list_sentences(told)) == (positions == "relative")


class Covers(Look):
    """What convolutions make of where it was looked, rows of padding filled with 0, is taken off scores (CoMER)."""

    def __init__(self):
        super().__init__(None)
        self.cover, self.project = nn.Conv2d(NARROW, 7, 3, padding=1), nn.Conv2d(7, HEADS, 1)

    def forward(self, x, pairs):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        past = self.cover(pairs.permute(0, 3, 1, 2)).relu().masked_fill(~(pairs[:, None, :, :, 0] > 0), 0.0)
        weights = (q @ k.transpose(-1, -2) - self.project(past)).softmax(-1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))


def test_what_convolutions_make_and_scores_lose_is_no_mask():
    model = Layers(None)
    model.looks = nn.ModuleList(Covers() for _ in range(2))
    ids, pairs = torch.zeros(BATCH, PLACES, dtype=torch.long), torch.rand(BATCH, PLACES, PLACES, NARROW)
    labels = list_labels(xray.trace(model.eval(), ids, pairs))

    assert any(label.startswith("− A BIAS") for label in labels)
    assert not any(label.startswith("MASK") for label in labels)


class LooksAmongScores(Look):
    """Each key's scores look at those of other keys, and what they find is added to them (AiATrack)."""

    def __init__(self):
        super().__init__(None)
        self.asks, self.offers, self.norm = nn.Linear(PLACES, 7), nn.Linear(PLACES, 7), nn.LayerNorm(PLACES)

    def forward(self, x, pairs):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2)
        columns = scores.transpose(-1, -2)
        found = (self.asks(columns) @ self.offers(columns).mT / 7**0.5).softmax(-1) @ self.norm(columns)
        weights = (scores + found.transpose(-1, -2)).softmax(-1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))


def test_an_attention_among_scores_is_added_to_those_of_the_attention_that_it_is_in():
    model = Layers(None)
    model.looks = nn.ModuleList(LooksAmongScores() for _ in range(2))
    ids, pairs = torch.zeros(BATCH, PLACES, dtype=torch.long), torch.rand(BATCH, PLACES, PLACES, NARROW)
    trace = xray.trace(model.eval(), ids, pairs)

    assert {(one.heads, one.d_k) for one in attentions(anatomy(trace))} == {(HEADS, WIDTH // HEADS)}
    assert any(label.startswith("+ WHAT IS MADE OF THE SCORES") for label in list_labels(trace))
    assert "+ what is made of the scores )" in words_of(compose_poster(trace, text_width))
