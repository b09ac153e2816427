"""Boxes of conditions: what comes from outside, what it is called, and what it meets."""

from functools import cache

import torch
from story.regions.test_conditions import Diffusion, Layer, name_box
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Pooled(nn.Module):
    """What conditions is made of words whose mean, with no padding in it, stands before them (Mochi)."""

    def __init__(self):
        super().__init__()
        self.mix, self.layers = nn.Linear(5, 5), Diffusion()

    def forward(self, rows, encoder_words, words_mask):
        share = words_mask[:, :, None] / words_mask.sum(1)[:, None, None]
        joined = torch.cat([(encoder_words * share).sum(1, keepdim=True), encoder_words], 1)
        return self.layers(rows, self.mix(joined).mean(1))


@cache
def list_boxes():
    trace = xray.trace(Pooled(), torch.rand(2, 7, 12), torch.rand(2, 9, 5), torch.ones(2, 9))
    return compose_poster(trace, text_width).boxes


def test_rows_from_outside_stand_in_a_box_below_the_one_in_which_their_mean_is_put_beside_them():
    named = {name_box(box): box for box in list_boxes() if box.lines}
    joined, words = named["END TO END"], named["ENCODER WORDS"]

    assert (joined.record.shape, words.record.shape) == ((2, 10, 5), (2, 9, 5))
    assert words.top < joined.bottom
    assert named["MULTIPLIED"].record.shape == (2, 9, 5)


class Twofold(nn.Module):
    """Two stacks with one condition, each of rows of its own."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(5, 12), nn.SiLU(), nn.Linear(12, 12))
        self.lower, self.upper = (nn.ModuleList(Layer() for _ in range(2)) for _ in range(2))
        self.mix, self.out = nn.Linear(12, 12), nn.Linear(12, 2)

    def forward(self, rows, other, time):
        time = self.time(time)
        for layer in self.lower:
            rows = layer(rows, time)
        other = self.mix(other)
        for layer in self.upper:
            other = layer(other, time)
        return self.out(torch.cat([rows, other], 1))


def test_a_condition_of_which_another_tower_has_the_beginning_says_so_in_a_box():
    inputs = torch.rand(2, 7, 12), torch.rand(2, 6, 12), torch.rand(2, 5)
    lower, upper = (column.condition.nodes for column in read_columns(xray.trace(Twofold(), *inputs)))
    below = {node.label: node.record.source for node in upper}

    assert [node.steps[0].id for node in lower if node.label == "LINEAR"][:2] == ["time.0#0", "time.2#0"]
    assert [*below] == ["SiLU", "LINEAR", "TANH", "MADE BESIDE THE STACK TOWER"]
    assert below["MADE BESIDE THE STACK TOWER"] == "time.2#0"
