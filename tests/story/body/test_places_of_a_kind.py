"""How far apart two places are may count where both are of one kind alone, and else their kinds (CPM-Ant)."""

import torch
from torch import nn

import xray
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.where import attentions

HEADS, WIDTH, KINDS, BUCKETS = 3, 21, 4, 13


class Look(nn.Module):
    """Attention with numbers that are added to its scores."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.back = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, bias):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        weights = (q @ k.transpose(-1, -2) * 7**-0.5 + bias).softmax(-1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))


class Biased(nn.Module):
    """Three layers whose scores get a number of a table: picked by distance, or by the kinds of two places."""

    def __init__(self, picks):
        super().__init__()
        self.picks = picks
        self.words, self.kinds = nn.Embedding(11, WIDTH), nn.Embedding(KINDS, WIDTH)
        self.table = nn.Embedding(BUCKETS + KINDS * KINDS, HEADS)
        self.looks = nn.ModuleList(Look() for _ in range(3))

    def forward(self, ids):
        kinds = torch.where(ids > 5, 2, 1)
        count = torch.arange(ids.shape[1])
        far = (count[None] - count[:, None]).abs().clamp(max=BUCKETS - 1)
        asking, asked = kinds[:, :, None], kinds[:, None, :]
        rows = self.picks(far, asking, asked)
        bias = self.table(rows).permute(0, 3, 1, 2)
        x = self.words(ids) + self.kinds(kinds)
        for look in self.looks:
            x = x + look(x, bias)
        return x


def within(far, asking, asked):
    return torch.where(asking == asked, far[None], BUCKETS + asking * KINDS + asked)


def everywhere(far, asking, asked):
    return far[None]


def both_by_distance(far, asking, asked):
    return torch.where(asking == asked, far[None], BUCKETS + (far[None] + asking).clamp(max=KINDS))


def tell(picks):
    torch.manual_seed(0)
    anatomy = xray.anatomy(xray.trace(Biased(picks), torch.arange(14).view(2, 7) % 11))
    (kind,) = {(one.positions, one.within_a_kind) for one in attentions(anatomy)}
    return kind, next((text for text in list_sentences(anatomy) if text.startswith("Relative places")), "")


def test_distance_among_places_of_one_kind_is_told_of_these_alone():
    assert tell(within) == (
        ("relative", True),
        "Relative places: a number that depends on how far apart two of one kind are is added to their score; "
        "for two of different kinds, one that depends on the kinds alone.",
    )


def test_distance_that_counts_for_all_is_told_of_all():
    assert tell(everywhere) == (
        ("relative", None),
        "Relative places: a number that depends on how far apart two are is added to their score.",
    )


def test_distance_and_kinds_together_are_not_told_as_distance():
    assert tell(both_by_distance) == ((None, None), "")
