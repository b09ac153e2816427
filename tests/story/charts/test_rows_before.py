"""Rows before those that ask, which give keys and values alone: the boxes of both norms, and what leads there."""

import pytest
import torch
from story.body.test_mistaken import FeedForwardPart
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, ROWS, BEFORE = 12, 3, 11, 7


class Looks(nn.Module):
    """The last rows look at all rows; those before them, where there are any, go through a norm of their own."""

    def __init__(self):
        super().__init__()
        self.norm, self.other, self.q, self.out = (
            nn.LayerNorm(WIDTH),
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )
        self.kv = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x, before):
        own, others = self.norm(x), None if before is None else self.other(before)
        pairs = [self.kv(one).chunk(2, dim=-1) for one in (others, own) if one is not None]
        k, v = (torch.cat(one, dim=1) for one in zip(*pairs, strict=True))
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q(own), k, v))
        return x + self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.first, self.feed = nn.Embedding(23, WIDTH), Looks(), FeedForwardPart()
        self.second, self.last = Looks(), FeedForwardPart()

    def forward(self, ids):
        x = self.table(ids)
        x = self.feed(self.first(x[:, BEFORE:], x[:, :BEFORE]))
        return self.last(self.second(x, None))


@pytest.fixture(scope="module")
def poster():
    return compose_poster(xray.trace(Reads(), torch.zeros(2, ROWS, dtype=torch.long)), text_width)


def lines_of(box):
    return ["".join(run.text for run in line) for line in box.lines]


def test_the_layer_begins_with_the_rows_that_ask(poster):
    (box,) = (box for box in poster.boxes if "LAYER INPUT" in lines_of(box)[:1])
    assert any(line.startswith(f"2×{ROWS - BEFORE}×{WIDTH}") for line in lines_of(box))


def test_the_norm_of_the_others_says_which_rows_it_reads_and_no_arrow_leads_there_from_the_stream(poster):
    norms = [box for box in poster.boxes if lines_of(box)[:1] and lines_of(box)[0].startswith("LAYER NORM")]
    (other,) = (box for box in norms if f"of the first {BEFORE} of {ROWS} rows" in " ".join(lines_of(box)))
    ends = [curve.points[-1] for curve in poster.curves if curve.head]

    def leads_to(box):
        return any(box.left <= x <= box.right and abs(y - box.bottom) < 3 for x, y in ends)

    assert not leads_to(other)
    assert all(leads_to(box) for box in norms if box is not other)


class LooksAtMore(nn.Module):
    """The last rows look at all of them; each side has a norm of its own (SwinTrack)."""

    def __init__(self):
        super().__init__()
        self.norm_q, self.norm_kv = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.kv, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, before, x):
        k, v = self.kv(self.norm_kv(torch.cat([before, x], dim=1))).chunk(2, dim=-1)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q(self.norm_q(x)), k, v))
        return x + self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Tracks(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.look, self.feed = nn.Embedding(23, WIDTH), Looks(), FeedForwardPart()
        self.looks, self.last = LooksAtMore(), FeedForwardPart()

    def forward(self, ids):
        x = self.feed(self.look(self.table(ids), None))
        return self.last(self.looks(x[:, :BEFORE], x[:, BEFORE:]))


def test_no_arrow_leads_from_the_rows_that_ask_to_a_norm_of_more_rows():
    columns = read_columns(xray.trace(Tracks(), torch.zeros(2, ROWS, dtype=torch.long)))
    charts = [panel.chart for column in columns for frame in column.frames for panel in frame.panels]
    (chart,) = (one for one in charts if any(node.told == (f"of {ROWS} rows",) for node in one.nodes))

    norms = {node.key: node.told for node in chart.nodes if node.label == "LAYER NORM"}
    assert sorted(norms.values()) == [(), (f"of {ROWS} rows",)]
    assert [norms[foot] for foot in chart.feet if foot in norms] == [()]
