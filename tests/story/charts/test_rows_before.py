"""Rows before those that ask, which give keys and values alone: the boxes of both norms, and what leads there."""

import pytest
import torch
from story.body.test_mistaken import FeedForwardPart
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

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
