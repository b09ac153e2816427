"""What is no feed-forward has no d_ff, and what queries and keys are not summed over is no d_k."""

import pytest
import torch
from torch import nn

import xray

WIDTH, HEADS, NARROW = 14, 2, 5


class Attending(nn.Module):
    """Attention over rows, or over channels, as DaViT has it; a feed-forward, and a gate of what that reads."""

    def __init__(self, *, over_channels=False, gate=None):
        super().__init__()
        self.words, self.qkv, self.out = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 11), nn.Linear(11, WIDTH)
        self.narrow, self.widen, self.own = nn.Linear(WIDTH, NARROW), nn.Linear(NARROW, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.over_channels, self.gate = over_channels, gate

    def forward(self, ids):
        x = self.words(ids)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        if self.over_channels:
            scores = (query.mT @ key).softmax(-1)
            found = (scores @ value.mT).mT
        else:
            found = (query @ key.mT).softmax(-1) @ value
        x = x + self.out(found.transpose(1, 2).flatten(2))
        read = x if self.gate is None else self.gate(self, x)
        return x + self.back(self.wide(read).relu())


def gate_rows(model, x):
    return x * model.widen(nn.functional.silu(model.narrow(x))).sigmoid()


def gate_layer(model, x):
    return x + model.own(x).sigmoid() * model.widen(nn.functional.silu(model.narrow(x)))


def words_of(path, **said):
    trace = xray.trace(Attending(**said), torch.arange(10).view(2, 5))
    return next(step for step in trace.steps if step.path == path).outputs[0].axes


@pytest.mark.parametrize(("gate", "word"), [(gate_rows, ""), (gate_layer, "d_ff")])
def test_a_waist_of_what_gates_rows_is_no_feed_forward(gate, word):
    assert words_of("narrow", gate=gate)[-1] == word
    assert words_of("wide", gate=gate)[-1] == "d_ff"


def test_rows_that_channels_are_compared_over_are_no_width_of_heads():
    assert {"d_k", "d_v"}.isdisjoint(words_of("qkv", over_channels=True))
    assert words_of("wide", over_channels=True)[-1] == "d_ff"


class Recurring(nn.Module):
    """Attention, and rows that a sum over those before them makes, let through by a gate (RecurrentGemma)."""

    def __init__(self):
        super().__init__()
        self.words, self.attention = nn.Embedding(31, WIDTH), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.gate, self.wide, self.back = nn.Linear(WIDTH, 11), nn.Linear(WIDTH, 11), nn.Linear(11, WIDTH)

    def forward(self, ids):
        x = self.words(ids)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.back(nn.functional.gelu(self.gate(x)) * self.wide(x).cumsum(1))


def test_rows_of_a_recurrence_that_are_let_through_are_no_feed_forward():
    steps = xray.trace(Recurring(), torch.arange(10).view(2, 5)).steps

    assert "d_ff" not in {word for step in steps for record in step.outputs for word in record.axes}
