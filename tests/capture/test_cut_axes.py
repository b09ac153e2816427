"""A width that rotary places cut into pieces and put together again keeps its word."""

import pytest
import torch
from capture.test_axis_words import Grouped

import xray


def turn_halves(x, angles):
    """Rotary places of two halves of a head (gpt-oss)."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


def turn_pairs(x, angles):
    """Of every two numbers that lie beside each other (DeepSeek-V3)."""
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


def turn_some(x, angles):
    """Of the first numbers alone, the others go past (Phi, GPT-NeoX)."""
    some, others = x[..., :4], x[..., 4:]
    return torch.cat([turn_halves(some, angles[..., :2]), others], -1)


def take_some_twice(x, angles):
    """What was not in one row before is not the same row."""
    return torch.cat([x[..., :4], x[..., :4]], -1)


class Turning(Grouped):
    def __init__(self, turn):
        super().__init__(15, 3, 1, 8, by_hand=True)
        self.turn = turn

    def split(self, x, heads):
        rows = super().split(x, heads)
        return self.turn(rows, torch.ones(x.shape[1], 4))


@pytest.mark.parametrize(
    ("turn", "word"),
    [(turn_halves, "heads*d_k"), (turn_pairs, "heads*d_k"), (turn_some, "heads*d_k"), (take_some_twice, "")],
)
def test_a_head_that_is_cut_turned_and_put_together_keeps_its_width(turn, word):
    steps = {step.id: step for step in xray.trace(Turning(turn), torch.arange(10).view(2, 5)).steps}

    assert steps["query#0"].outputs[0].axes == ("batch", "seq_len", word)
