"""Places that are added anew between stages, where rows get fewer and wider (PVT)."""

import pytest
import torch
from story.body.test_attention_between import LEFT, PLACES, WIDER, Wider
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Merging(nn.Module):
    """Two rows become one that is wider; learned places, or one learned row for all, are added."""

    def __init__(self, places):
        super().__init__()
        self.joining, self.norm = nn.Linear(2 * WIDTH, WIDER), nn.LayerNorm(WIDER)
        self.places = nn.Parameter(torch.zeros(1, places, WIDER))

    def forward(self, x):
        return self.norm(self.joining(x.reshape(BATCH, LEFT, 2 * WIDTH))) + self.places


@pytest.mark.parametrize(("places", "has_box"), [(LEFT, True), (1, False)])
def test_places_that_are_added_between_stages_have_a_box(places, has_box):
    parts = nn.Linear(7, WIDTH), AttentionPart(), FeedForwardPart(), Merging(places), Wider(), Wider()
    trace = xray.trace(nn.Sequential(*parts).eval(), torch.randn(BATCH, PLACES, 7))
    (chart,) = [frame.bridge for column in read_columns(trace) for frame in column.frames if frame.bridge]

    assert ("+ LEARNED PLACES" in [node.label for node in chart.nodes]) is has_box
