"""What looks like a mistake and is meant raises no alarm: windows, triangles, marked words, masks of a loss."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.story.alarms.whole import audit

WIDTH, HEADS, LENGTH, VOCAB, MARKED = 16, 2, 7, 23, 9
IDS = torch.tensor([[3, 4, MARKED, MARKED, 6, 7, 8], [3, MARKED, 5, 6, MARKED, 2, 2]])
KEEP = torch.tensor([[1.0] * LENGTH, [1.0] * 4 + [0.0] * 3])
LOWER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
BEHIND = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)


class Attention(nn.Module):
    def __init__(self, hide, weigh, **says):
        super().__init__()
        self.lines = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.hide, self.weigh = hide, weigh
        vars(self).update(says)

    def forward(self, x, mask):
        q, k, v = (line(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for line in self.lines[:3])
        weights = self.hide(q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS), mask).softmax(-1)
        return self.lines[3]((self.weigh(weights, mask) @ v).transpose(1, 2).reshape(x.shape))


class Model(nn.Module):
    """A layer for each way to hide; `make` makes a mask of ids, and `end` what comes out of logits."""

    def __init__(self, *hides, make=lambda ids, mask: mask, end=lambda y, *_: y, weigh=lambda w, _: w, own=(), **says):
        super().__init__()
        self.table, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.layers = nn.ModuleList(Attention(hide, weigh, **dict(own)) for hide in hides)
        self.make, self.end = make, end
        vars(self).update(says)

    def forward(self, ids, labels=None, mask=None, position_ids=None):
        x, made = self.table(ids), self.make(ids, mask)
        for layer in self.layers:
            x = x + layer(x, made)
        return self.end(self.head(x), labels, mask)


def see(scores, mask):
    return scores


def fill(scores, mask):
    return scores.masked_fill(~mask, -1e9)


def hide_where(hidden):
    return lambda scores, mask: scores.masked_fill(hidden, -1e9)


def see_marked(ids, mask):
    marked = ids == MARKED
    return LOWER | (marked[:, None, :, None] & marked[:, None, None, :])


def add_far_from_infinity(ids, mask):
    return (1.0 - ((ids != IDS[0, 0])[:, None, None, :].long() * LOWER.long()).float()) * -10000.0


def lose(logits, labels, mask):
    lost = functional.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1), reduction="none")
    return (lost.view(2, -1) * mask).sum() / mask.sum()


def lose_all_but_last(logits, labels, mask):
    return functional.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, :-1].reshape(-1))


def share_anew(weights, mask):
    left = weights * mask[:, None, None, :]
    return left * left.sum(-1, keepdim=True).clamp(min=1e-9).reciprocal()


CAUSAL, BACK, LOCAL = map(hide_where, (~LOWER, ~LOWER.T, ~LOWER | (BEHIND > 2)))
BLOCKS = hide_where(~LOWER | (torch.arange(LENGTH)[:, None] // 2 - torch.arange(LENGTH) // 2 > 1))
AGAIN = {"position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2]] * 2)}
MEANT = {
    "a layer for each direction": (Model(CAUSAL, BACK), {}),
    "marked words see each other": (Model(fill, make=see_marked), {}),
    "marked words alone are seen": (Model(fill, make=lambda ids, _: (ids == MARKED)[:, None, None, :]), {}),
    "tags of all but the last word": (Model(see, end=lose_all_but_last), {"labels": IDS}),
    "a mask of the loss": (Model(CAUSAL, end=lose), {"labels": IDS, "mask": KEEP}),
    "weights of queries masked": (Model(see, weigh=lambda w, m: w * m[:, None, :, None]), {"mask": KEEP}),
    "weights shared out anew": (Model(see, weigh=share_anew), {"mask": KEEP}),
    "a window of something else": (Model(CAUSAL, window_size=3), {}),
    "a window of two before each": (Model(LOCAL, own={"window_size": 2}), {}),
    "windows in blocks": (Model(BLOCKS, own={"window_size": 2}), {}),
    "places counted anew, all seen": (Model(see), AGAIN),
    "a first word hidden, by no infinity": (Model(torch.add, make=add_far_from_infinity), {}),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_is_meant_raises_nothing(name):
    model, given = MEANT[name]

    assert [alarm.kind for alarm in audit(xray.trace(model.eval(), ids=IDS, **given)).alarms] == []


@pytest.mark.parametrize(
    "model",
    [
        Model(BACK, BACK),
        Model(fill, make=lambda ids, _: (ids == 0)[:, None, None, :]),
    ],
)
def test_what_is_turned_round_in_all_layers_raises_an_alarm(model):
    assert [alarm.kind for alarm in audit(xray.trace(model.eval(), ids=IDS)).alarms] == ["inverted"]


class Along(Attention):
    """The same along one of two axes, the other one being folded into the batch: all series at a time, or all times."""

    def __init__(self, axis):
        super().__init__(fill if axis == 2 else see, lambda weights, _: weights)
        self.axis = axis

    def forward(self, x, mask):
        rows = x.transpose(self.axis, 2)
        made = super().forward(rows.flatten(0, 1), torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril())
        return made.view(rows.shape).transpose(self.axis, 2)


class Series(nn.Module):
    """Layers along time, behind each of which one looks over all series of a time (Toto)."""

    def __init__(self):
        super().__init__()
        self.into, self.layers = nn.Linear(5, WIDTH), nn.ModuleList(map(Along, (2, 2, 1)))

    def forward(self, series):
        x = self.into(series)
        for layer in self.layers:
            x = x + layer(x, None)
        return x


def test_attention_over_all_series_of_a_time_raises_nothing():
    trace = xray.trace(Series().eval(), torch.rand(2, 3, LENGTH, 5))

    assert [alarm.kind for alarm in audit(trace).alarms] == []


class Nobody(nn.Module):
    """An attention that no sequence came to (an expert without samples, Pathformer)."""

    def __init__(self):
        super().__init__()
        self.lines = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        q, k, v = (line(x) for line in self.lines)
        return (q @ k.transpose(-2, -1)).softmax(-1) @ v


def test_an_attention_of_no_sequence_raises_no_alarm():
    assert not audit(xray.trace(Nobody(), torch.rand(0, LENGTH, WIDTH)))
