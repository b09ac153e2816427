"""What is added to the scores of an attention that stands as one box, as its like is drawn in full."""

import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

PLACES = 6


class WithBias(nn.Module):
    """Places look at each other in windows; a learned number by distance is added to their score."""

    def __init__(self, window):
        super().__init__()
        self.window = window
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.bias = nn.Parameter(torch.randn(HEADS, 2 * window - 1))

    def forward(self, x):
        rows = self.norm(x).reshape(-1, self.window, WIDTH)
        query, key, value = (
            one(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        apart = torch.arange(self.window) - torch.arange(self.window)[:, None] + self.window - 1
        seen = (query @ key.mT / HEADS + self.bias[:, apart]).softmax(-1) @ value
        return x + self.out(seen.transpose(1, 2).flatten(2)).reshape(BATCH, PLACES, WIDTH)


class InHalves(WithBias):
    """The same, of half of the heads; the other half looks beside it, with learned numbers of its own (CAT)."""

    def __init__(self, window):
        super().__init__(window)
        self.biases = nn.ParameterList(torch.randn(HEADS, 2 * window - 1) for _ in range(2))

    def look(self, query, key, value, bias):
        apart = torch.arange(self.window) - torch.arange(self.window)[:, None] + self.window - 1
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, key, value))
        return ((query @ key.mT / HEADS + bias[:, apart]).softmax(-1) @ value).transpose(1, 2).flatten(2)

    def forward(self, x):
        rows = self.norm(x).reshape(-1, self.window, WIDTH)
        halves = zip(*(one(rows).chunk(2, -1) for one in (self.query, self.key, self.value)), self.biases, strict=True)
        seen = torch.cat([self.look(*half) for half in halves], dim=-1)
        return x + self.out(seen).reshape(BATCH, PLACES, WIDTH)


def tell_closed(part):
    windows = (3, 3, PLACES)
    layers = (one for window in windows for one in (part(window), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *layers).eval(), torch.randn(BATCH, PLACES, 7))
    (column,) = read_columns(trace)
    return [node.told for frame in column.frames for panel in frame.panels for node in panel.chart.nodes]


def test_an_attention_that_is_one_box_tells_with_how_many_parameters_it_adds_to_its_scores():
    assert (f"bias of relative places added to scores: {HEADS * (2 * PLACES - 1)} parameters",) in tell_closed(WithBias)


def test_what_another_attention_beside_it_works_with_is_told_too():
    many = f"{HEADS * (2 * PLACES - 1)} parameters"

    assert (
        f"bias of relative places added to scores: {many}",
        f"another attention beside it: {many}",
    ) in tell_closed(InHalves)
