"""Boxes of conditions: what comes from outside, what it is called, and what it meets."""

from functools import cache

import torch
from story.regions.test_conditions import Diffusion, Layer, name_box
from story.test_patches_and_grids import patches_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.layout import line_width
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


class Guided(nn.Module):
    """Rows of patches of two pictures, each with two masks beside it, and a condition (Cosmos)."""

    def __init__(self):
        super().__init__()
        self.rows, self.guide, self.layers = nn.Linear(5 * 8**2, 12), nn.Linear(5 * 8**2, 12), Diffusion()

    def forward(self, controls, latents, mask, padding, condition):
        beside = padding.repeat(len(mask), 1, 1, 1)
        both = (torch.cat([torch.cat([one, mask], 1), beside], 1) for one in (latents, controls))
        own, other = (patches_of(one, 8) for one in both)
        return self.layers(self.rows(own) + self.guide(other), condition)


def test_sizes_of_inputs_beside_each_other_have_room_in_their_boxes_where_a_condition_stands_beside_these():
    size = 160, 240
    given = [torch.rand(2, 3, *size), torch.rand(2, 3, *size), torch.ones(2, 1, *size), torch.zeros(1, 1, *size)]
    boxes = compose_poster(xray.trace(Guided(), *given, torch.rand(2, 5)), text_width).boxes
    films = [box for box in boxes if box.record and box.record.shape[2:] == size and box.lines]
    inputs = [box for box in films if box.y == min(one.y for one in films)]

    assert len(inputs) == len(given)
    assert all(line_width(line, text_width) <= box.width for box in inputs for line in box.lines)
