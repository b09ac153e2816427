"""Places summed up by weight, where the sum multiplies each of them: told so where the weights share out the places."""

import pytest
import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import Context, FeedForward
from xray.story.poster import compose_poster

WIDTH, PLACES = 15, 7


class Sums(nn.Module):
    """Attention of one query: each place has one score, and the sum of all keys by weight multiplies each value."""

    def __init__(self, axis, *, is_met):
        super().__init__()
        self.norm, self.ask, self.axis, self.is_met = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH + 1), axis, is_met
        self.back = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.ask(self.norm(x)).split([1, WIDTH, WIDTH], dim=-1)
        found = (key * query.softmax(dim=self.axis)).sum(dim=1, keepdim=True)
        return x + self.back(torch.relu(value) * found.expand_as(value) if self.is_met else found + torch.relu(value))


class Thinks(nn.Module):
    """A feed-forward behind a norm, for rows of a width."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(width), nn.Linear(width, 31), nn.Linear(31, width)

    def forward(self, x):
        return x + self.back(nn.functional.gelu(self.wide(self.norm(x))))


def record(axis=1, *, is_met=True):
    torch.manual_seed(0)
    layers = [make() for _ in range(3) for make in (lambda: Sums(axis, is_met=is_met), Thinks)]
    return xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(2 * PLACES).view(2, PLACES))


def test_places_that_are_summed_up_by_weight_and_multiply_each_are_told_so():
    trace = record()
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]

    (group,) = xray.anatomy(trace).towers[0].groups
    assert [branch for stage in group.stages for branch in stage.branches] == [
        Context(PLACES),
        FeedForward(31, "gelu", gated=False, fused=None),
    ]
    assert "ONE SUM OF PLACES FOR ALL" in texts


def test_weights_that_are_the_softmax_of_one_number_are_told_to_be_one():
    trace = record(-1)
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.stages[0].branches == (Context(PLACES, weighed=False),)
    assert any(text.startswith("SOFTMAX OF 1 NUMBER") for text in texts)
    assert sum("each with the weight 1, softmax of one number" in text for text in texts) == 1


@pytest.mark.parametrize("axis", [-1, 1])
def test_sums_that_multiply_nothing_have_no_name(axis):
    (group,) = xray.anatomy(record(axis, is_met=False)).towers[0].groups

    assert [branch.part for stage in group.stages for branch in stage.branches] == ["unknown", "feed_forward"]


class SumsOfMaps(nn.Module):
    """The same of maps whose places are laid out in sets: the first ones of all patches, and so on (MobileViTV2)."""

    def __init__(self):
        super().__init__()
        self.norm, self.back = nn.GroupNorm(1, WIDTH), nn.Conv2d(WIDTH, WIDTH, 1)
        self.ask = nn.Conv2d(WIDTH, 2 * WIDTH + 1, 1)

    def forward(self, x):
        query, key, value = self.ask(self.norm(x)).split([1, WIDTH, WIDTH], dim=1)
        found = (key * query.softmax(dim=-1)).sum(dim=-1, keepdim=True)
        return x + self.back(torch.relu(value) * found.expand_as(value))


def test_sets_of_places_that_are_summed_up_apart_are_counted():
    torch.manual_seed(0)
    trace = xray.trace(nn.Sequential(nn.Conv2d(3, WIDTH, 1), *(SumsOfMaps() for _ in range(3))), torch.rand(2, 3, 4, 7))
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.stages[0].branches == (Context(PLACES, sums=4),)
    assert "4 SUMS OF PLACES" in texts
    assert "Places are summed up in 4 sets, each by its weight;" in " ".join(texts)
