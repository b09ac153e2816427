"""Channels that look at each other: told where they are scored by what they are at all places, and nowhere else."""

import torch
from story.body.test_context import PLACES, WIDTH, Thinks
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import ChannelAttention
from xray.story.poster import compose_poster

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


def test_places_that_look_at_each_other_are_no_channels():
    trace = record(of_channels=False)
    texts = read_texts(trace)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert [branch.part for stage in group.stages for branch in stage.branches] == ["attention", "feed_forward"]
    assert not any("channel" in text.lower() for text in texts)
