"""A mask that begins as a triangle and is laid into a wider square says nothing of the future by that alone."""

import torch
from story.body.test_kept_waist import WIDTH, Layer
from story.body.test_seen_keys import LENGTH, Scoring
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention


class Remembering(Scoring):
    """Two rows of memory before the words, which all see, and one behind them, which sees all."""

    def change(self, scores, others):
        words = torch.ones(LENGTH - 3, LENGTH - 3, dtype=torch.bool).tril()
        seen = nn.functional.pad(words, (0, 1, 2, 0), value=False)
        seen = nn.functional.pad(seen, (2, 0, 0, 1), value=True)
        return scores.masked_fill(~seen, -1e9)


def test_rows_of_memory_that_see_later_ones_are_not_told_to_look_back_alone():
    layers = (Layer(Remembering()) for _ in range(3))
    trace = xray.trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval(), torch.rand(2, LENGTH, WIDTH))
    (tower,) = xray.anatomy(trace).towers

    assert {one.causal for one in tower.branches if isinstance(one, Attention)} == {None}
