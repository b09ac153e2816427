"""Channels that look at each other: told where they are scored by what they are at all places, and nowhere else."""

from dataclasses import replace

import pytest
import torch
from story.body.test_context import PLACES, WIDTH, Thinks
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import ChannelAttention
from xray.story.poster import compose_poster
from xray.story.sentences.stations.of_stages import describe_stage

GROUPS = 3


class Attends(nn.Module):
    """Attention whose queries and keys are channels, in groups; or places, in as many heads."""

    def __init__(self, *, of_channels):
        super().__init__()
        self.norm, self.ask, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.axes = (2, 0, 3, 4, 1) if of_channels else (2, 0, 3, 1, 4)
        self.back_axes = (0, 3, 1, 2) if of_channels else (0, 2, 1, 3)

    def forward(self, x):
        rows = self.ask(self.norm(x)).unflatten(-1, (3, GROUPS, WIDTH // GROUPS))
        query, key, value = rows.permute(self.axes).unbind(0)
        found = ((query @ key.mT) * PLACES**-0.5).softmax(dim=-1) @ value
        return x + self.back(found.permute(self.back_axes).flatten(2))


def record(*, of_channels):
    torch.manual_seed(0)
    layers = [make() for _ in range(3) for make in (lambda: Attends(of_channels=of_channels), Thinks)]
    return xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(2 * PLACES).view(2, PLACES))


def read_texts(trace):
    return ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]


def test_channels_that_look_at_each_other_are_told_so():
    trace = record(of_channels=True)
    texts = read_texts(trace)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.stages[0].branches == (ChannelAttention(GROUPS, WIDTH // GROUPS),)
    assert "CHANNEL ATTENTION" in texts
    assert any(
        "Channels look at each other, by what they are at all places, in 3 groups of 5." in text for text in texts
    )


@pytest.mark.parametrize(("groups", "told"), [((3, 3), ", in 3 groups of 5."), ((3, 5), ".")])
def test_groups_are_told_where_those_of_all_layers_are_alike(groups, told):
    (tower,) = xray.anatomy(record(of_channels=True)).towers
    (group,) = tower.groups
    stages = [replace(group.stages[0], branches=(ChannelAttention(one, 5),)) for one in groups]
    parts = [replace(group, stages=(one,)) for one in stages]
    whole = replace(tower, groups=tuple(parts))

    text = describe_stage(whole, stages[0])
    assert text == f"Channels look at each other, by what they are at all places{told}"


def test_places_that_look_at_each_other_are_no_channels():
    trace = record(of_channels=False)
    texts = read_texts(trace)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert [branch.part for stage in group.stages for branch in stage.branches] == ["attention", "feed_forward"]
    assert not any("channel" in text.lower() for text in texts)


class OfMaps(nn.Module):
    """Channels of maps that look at each other, in groups; the numbers of a place stand last, or before the places."""

    def __init__(self, *, are_last):
        super().__init__()
        self.are_last = are_last
        self.norm = nn.LayerNorm(WIDTH) if are_last else nn.BatchNorm2d(WIDTH)
        self.ask, self.back = (
            nn.Linear(WIDTH, wide) if are_last else nn.Conv2d(WIDTH, wide, 1) for wide in (3 * WIDTH, WIDTH)
        )

    def forward(self, x):
        asked = self.ask(self.norm(x))
        rows = (asked.flatten(1, 2).mT if self.are_last else asked.flatten(2)).unflatten(1, (3, GROUPS, -1))
        query, key, value = rows.unbind(1)
        found = ((query @ key.mT) * 0.3).softmax(dim=-1) @ value
        laid = found.flatten(1, 2)
        laid = laid.mT.unflatten(1, x.shape[1:3]) if self.are_last else laid.unflatten(2, x.shape[2:])
        return x + self.back(laid)


@pytest.mark.parametrize("are_last", [True, False])
def test_channels_of_maps_that_look_at_each_other_are_told_so(are_last):
    maps = torch.rand(2, 2, 7, 3) if are_last else torch.rand(2, 3, 2, 7)
    begin = nn.Linear(3, WIDTH) if are_last else nn.Conv2d(3, WIDTH, 1)
    trace = xray.trace(nn.Sequential(begin, *(OfMaps(are_last=are_last) for _ in range(2))).eval(), maps)
    texts = read_texts(trace)

    found = {branch for tower in xray.anatomy(trace).towers for branch in tower.branches}
    assert found == {ChannelAttention(GROUPS, WIDTH // GROUPS)}
    assert not any("Every place looks" in text or "√d_k" in text or "width of one head" in text for text in texts)


class Tempered(nn.Module):
    """Channels that look at each other by scores times a learned number for each head, of which there may be one."""

    def __init__(self, heads):
        super().__init__()
        self.norm, self.ask, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.heads, self.temperature = heads, nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x):
        rows = self.ask(self.norm(x)).unflatten(-1, (3, self.heads, WIDTH // self.heads))
        query, key, value = rows.permute(2, 0, 3, 4, 1).unbind(0)
        found = (query @ key.mT * self.temperature).softmax(dim=-1) @ value
        return x + self.back(found.permute(0, 3, 1, 2).flatten(2))


def test_one_learned_number_is_no_other_box_than_several():
    torch.manual_seed(0)
    layers = [part for heads in (GROUPS, GROUPS, 1) for part in (Tempered(heads), Thinks())]
    model = nn.Sequential(nn.Embedding(31, WIDTH), *layers)
    texts = read_texts(xray.trace(model, torch.arange(2 * PLACES).view(2, PLACES)))

    assert any("× LEARNED NUMBERS" in text for text in texts)
    assert any("CHANNEL ATTENTION" in text and "boxes as at 2" in text for text in texts)
    assert not any(" without " in text for text in texts)
