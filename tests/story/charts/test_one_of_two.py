"""Rows that are taken from one of two streams, as a bool says: by `where`, or by products with it and its opposite."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.arrows.proof import keep_proven
from xray.story.sheet.columns import read_columns

WAYS = {
    "opposite": lambda is_sign, one, other: one * is_sign + other * ~is_sign,
    "the rest of 1": lambda is_sign, one, other: other * (1 - is_sign.float()) + one * is_sign.float(),
}
OTHERS = {
    "alike": lambda is_sign, one, other: one * is_sign + other * is_sign,
    "numbers": lambda is_sign, one, other: one * is_sign + other * (0.5 - is_sign.float()),
}


class Merges(nn.Module):
    """Words looked up in two tables, and put together."""

    def __init__(self, merge):
        super().__init__()
        self.words, self.signs, self.merge = nn.Embedding(11, WIDTH), nn.Embedding(13, WIDTH), merge
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, ids):
        return self.layers(self.merge(ids.eq(4)[..., None], self.signs(ids), self.words(ids)))


def chart(merge):
    (column,) = read_columns(xray.trace(Merges(merge).eval(), torch.arange(10).view(2, 5)))
    return column.entrance


@pytest.mark.parametrize("way", WAYS)
def test_a_sum_of_products_with_a_bool_and_its_opposite_takes_one_or_the_other(way):
    found = chart(WAYS[way])

    (head,) = [node for node in found.nodes if node.key == found.head]
    assert head.label == "ONE OR THE OTHER"
    assert [step.op for step in head.steps].count("mul") == 2
    assert [edge.target for edge in found.edges].count(found.head) == 2


@pytest.mark.parametrize("way", OTHERS)
def test_a_sum_of_other_products_takes_not_one_of_two(way):
    assert "ONE OR THE OTHER" not in [node.label for node in chart(OTHERS[way]).nodes]


class Hides(Merges):
    """A learned row stands for some words, in a sum of products or by `where` (SegGPT)."""

    def __init__(self, merge):
        super().__init__(merge)
        self.hidden = nn.Parameter(torch.rand(WIDTH))

    def forward(self, ids):
        words = self.words(ids)
        return self.layers(self.merge(ids.eq(4)[..., None], self.hidden.expand_as(words), words))


@pytest.mark.parametrize("way", [*WAYS.values(), torch.where])
def test_a_learned_row_that_a_bool_puts_in_the_place_of_others_is_told_and_counted(way):
    (column,) = read_columns(xray.trace(Hides(way).eval(), torch.arange(10).view(2, 5)))

    (head,) = [node for node in column.entrance.nodes if node.key == column.entrance.head]
    assert (head.label, head.extra) == ("A LEARNED ROW PUT IN", f"{WIDTH} parameters")


class Mixes(Hides):
    """The same, where whole numbers come in that say how much of it stands at each place (SimMIM)."""

    def forward(self, ids, shares):  # type: ignore[override]
        words = self.words(ids)
        return self.layers(self.merge(shares.unsqueeze(-1).type_as(words), self.hidden.expand_as(words), words))


def test_a_learned_row_is_mixed_in_by_numbers_that_may_be_others_than_0_and_1():
    mixes = Mixes(lambda share, row, words: words * (1 - share) + row * share)
    (column,) = read_columns(xray.trace(mixes.eval(), torch.arange(10).view(2, 5), torch.ones(2, 5).long()))

    (head,) = [node for node in column.entrance.nodes if node.key == column.entrance.head]
    assert (head.label, head.extra) == ("A LEARNED ROW MIXED IN", f"{WIDTH} parameters")
    (shares,) = [node for node in column.entrance.nodes if node.label == "NUMBERS"]
    assert (shares.key, head.key) in {(edge.source, edge.target) for edge in column.entrance.edges}


class FillsIn(nn.Module):
    """What is missing in a series is worked out by one stack, put into it, and worked over by another (SAITS)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Linear(2 * 5, WIDTH) for _ in range(2))
        self.back, self.last = (nn.Linear(WIDTH, 5) for _ in range(2))
        self.layers, self.others = (nn.Sequential(*(one() for one in (AttentionPart, FeedForwardPart))) for _ in "12")

    def forward(self, x, known):
        made = self.back(self.layers(self.first(torch.cat([x, known], dim=2))))
        filled = known * x + (1 - known) * made
        return self.last(self.others(self.second(torch.cat([filled, known], dim=2))))


def test_series_that_are_mixed_by_shares_are_led_to_the_sum_by_proven_ways():
    trace = xray.trace(FillsIn().eval(), torch.rand(2, 7, 5), torch.ones(2, 7, 5))

    assert keep_proven(read_columns(trace)) is not None
