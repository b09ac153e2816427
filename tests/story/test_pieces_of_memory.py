"""Rows that a tower gives, cut into pieces of which each is looked at alone (Granite Speech's windows)."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import words_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, BATCH, PLACES, PIECE, ASKING = 15, 2, 17, 5, 3


class Asking(nn.Module):
    """Rows look at each other, then at a memory, and think."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = (Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(2))

    def forward(self, x, memory):
        return self.outer(self.inner(x), memory)


class Cut(nn.Module):
    """A heard signal, whose rows are cut into pieces; learned rows ask each of them, or all rows at once."""

    def __init__(self, *, cuts, places=PLACES):
        super().__init__()
        self.cuts, self.more = cuts, -places % PIECE
        self.lead, self.asking = nn.Linear(7, WIDTH), nn.Parameter(torch.rand(1, ASKING, WIDTH))
        self.hears = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(2))
        self.asks = nn.ModuleList(Asking() for _ in range(2))

    def forward(self, signal):
        memory = self.lead(signal)
        for layer in self.hears:
            memory = layer(memory)
        if self.cuts:
            memory = nn.functional.pad(memory, (0, 0, 0, self.more)) if self.more else memory
            memory = memory.view(-1, PIECE, WIDTH)
        x = self.asking.expand(len(memory), -1, -1)
        for layer in self.asks:
            x = layer(x, memory)
        return x


def record(**how):
    torch.manual_seed(0)
    return xray.trace(Cut(**how).eval(), torch.rand(BATCH, how.get("places", PLACES), 7))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"cuts": True}, ["PADDED TO 20 ROWS", "EACH CUT INTO 4 PIECES OF 5 ROWS"]),
        ({"cuts": True, "places": 10}, ["EACH CUT INTO 2 PIECES OF 5 ROWS"]),
        ({"cuts": False}, []),
    ],
    ids=["padded", "even", "whole"],
)
def test_rows_that_are_cut_into_pieces_for_another_tower_stand_on_top_of_theirs(how, told):
    first, *_ = read_columns(record(**how))

    assert [node.label for node in first.exit.nodes] == told if told else first.exit is None


def test_a_memory_is_led_from_the_pieces_that_it_was_cut_into():
    layout = compose_poster(record(cuts=True), text_width)
    (box,) = [
        one
        for one in layout.boxes
        if "CUT INTO 4 PIECES" in "".join(run.text for line in one.lines for run in line) and one.record is not None
    ]

    starts = {curve.points[0] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert starts == {(box.x, box.top)}
    assert box.record.shape == (4 * BATCH, PIECE, WIDTH)
    assert "MEMORY" in words_of(layout)
