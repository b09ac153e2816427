"""Rows of another stream that are normed before they stand beside a resampler's own: the box of the join says so."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import list_unboxed

PLACES, ASKED = 5, 7


class Resampling(nn.Module):
    """Learned rows that look at others and at themselves; the others may go through a norm of their own (Evolla)."""

    def __init__(self, *, normed):
        super().__init__()
        self.others, self.norm = nn.LayerNorm(WIDTH) if normed else nn.Identity(), nn.LayerNorm(WIDTH)
        self.query, self.both, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, others):
        others, own = self.others(others), self.norm(x)
        key, value = self.both(torch.cat([others, own], dim=1)).chunk(2, dim=-1)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query(own), key, value))
        return x + self.out(((query @ key.mT).softmax(-1) @ value).transpose(1, 2).flatten(2))


class Resampler(nn.Module):
    """A tower, and learned rows that sum it up."""

    def __init__(self, *, normed):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(11, WIDTH), FeedForwardPart(), FeedForwardPart(), nn.LayerNorm(WIDTH))
        self.rows = nn.Parameter(torch.rand(ASKED, WIDTH))
        self.looks = nn.ModuleList(Resampling(normed=normed) for _ in range(2))
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(2))

    def forward(self, x):
        others, rows = self.tower(x), self.rows.expand(len(x), -1, -1)
        for look, think in zip(self.looks, self.thinks, strict=True):
            rows = think(look(rows, others))
        return rows


@pytest.mark.parametrize(("normed", "told"), [(True, ("the others normed, 24 parameters",)), (False, ())])
def test_a_join_says_that_the_others_are_normed_before(normed, told):
    columns = read_columns(xray.trace(Resampler(normed=normed).eval(), torch.rand(2, PLACES, 11)))

    charts = [panel.chart for column in columns for frame in column.frames for panel in frame.panels if panel.is_open]
    (join,) = (node for chart in charts for node in chart.nodes if node.label == "END TO END")
    assert join.told == told


def test_neither_such_a_norm_nor_rows_that_have_a_box_are_listed_as_not_drawn():
    columns = read_columns(xray.trace(Resampler(normed=True).eval(), torch.rand(2, PLACES, 11)))

    assert list_unboxed(columns) == ()


@pytest.mark.parametrize("normed", [True, False])
def test_a_line_to_what_joins_is_told_among_the_colours(normed):
    layout = compose_poster(xray.trace(Resampler(normed=normed).eval(), torch.rand(2, PLACES, 11)), text_width)

    told = {"".join(run.text for run in line) for box in layout.boxes for line in box.lines}
    assert any(curve.kind == "ribbon" for curve in layout.curves)
    assert told & {"what a tower gives another", "memory: keys and values"}
