"""The topmost frame holds the last layer: what leaves a tower leaves it there."""

import pytest
import torch
from story.body.test_mistaken import AttentionPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Group
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.planning import MOST_FRAMES, part_last

WIDTH = 12


def part(*groups):
    return [one.layers for one in part_last([Group(tuple(layers), ()) for layers in groups])]


@pytest.mark.parametrize(
    ("groups", "frames"),
    [
        ([range(7)], [range(7)]),
        ([[0, 2, 4], [1, 3, 5]], [[0, 2, 4], [1, 3, 5]]),
        ([[0, 11], range(1, 11)], [[0], range(1, 11), [11]]),  # SAM 3's lighter text tower
        ([[0, 1, 3, 4, 6, 7], [2, 5]], [[0, 1, 3, 4], [2, 5], [6, 7]]),  # Gemma 3
        ([[0, 2, 6], [1, 3, 5, 7], [4]], [[0, 2], [1, 3], [4], [5], [6], [7]]),  # Jamba
    ],
)
def test_layers_behind_all_of_the_topmost_frame_stand_in_frames_of_their_own(groups, frames):
    assert part(*groups) == [tuple(layers) for layers in frames]


def test_of_layers_that_would_need_too_many_frames_the_last_one_alone_stands_apart():
    even, odd = range(0, 2 * MOST_FRAMES, 2), range(3, 2 * MOST_FRAMES, 2)

    assert part(even, odd, [1]) == [tuple(even), tuple(odd[:-1]), (1,), (odd[-1],)]


class Thinks(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, wide), nn.Linear(wide, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def test_what_leaves_is_drawn_out_of_the_frame_that_holds_the_last_layer():
    torch.manual_seed(0)
    widths = (31, 43, 31, 43, 31)
    trace = xray.trace(nn.Sequential(*map(Thinks, widths), nn.LayerNorm(WIDTH)), torch.rand(2, 5, WIDTH))
    (column,) = read_columns(trace)

    assert [frame.group.layers for frame in column.frames] == [(0, 2), (1, 3), (4,)]
    assert [[panel.is_open for panel in frame.panels] for frame in column.frames] == [[True], [False], [False]]
    assert [group.layers for group in xray.anatomy(trace).towers[0].groups] == [(0, 2, 4), (1, 3)]


class ThinksLess(Thinks):
    def __init__(self, wide, share):
        super().__init__(wide)
        self.share = nn.Dropout(share)

    def forward(self, x):
        return x + self.share(self.down(torch.relu(self.up(self.norm(x)))))


def test_a_frame_tells_of_shares_that_its_own_layers_drop():
    torch.manual_seed(0)
    widths = zip((31, 43, 31, 43, 31), (0.1, 0.2, 0.3, 0.4, 0.5), strict=True)
    trace = xray.trace(nn.Sequential(*(ThinksLess(*one) for one in widths)).eval(), torch.rand(2, 5, WIDTH))
    (column,) = read_columns(trace)

    told = [(frame.group.layers, frame.group.dropouts) for frame in column.frames]
    assert told == [((0, 2), (0.1, 0.3)), ((1, 3), (0.2, 0.4)), ((4,), None)]


def read_frames(widths):
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(nn.Sequential(*map(Thinks, widths)), torch.rand(2, 5, WIDTH)))
    marks = [[node.label for node in frame.bridge.nodes] if frame.bridge else [] for frame in column.frames]
    return [frame.group.layers for frame in column.frames], marks


def test_layers_that_are_in_no_frame_have_a_mark_on_the_way_past_them():
    layers, marks = read_frames(range(31, 31 + MOST_FRAMES + 2))

    assert layers == [*((number,) for number in range(MOST_FRAMES - 1)), (MOST_FRAMES + 1,)]
    assert marks == [*[[]] * (MOST_FRAMES - 1), [f"LAYERS {MOST_FRAMES}–{MOST_FRAMES + 1}, NOT DRAWN"]]


def test_of_too_many_frames_one_of_each_kind_is_kept():
    torch.manual_seed(0)
    looks = (AttentionPart() for _ in range(2))
    parts = [*map(Thinks, range(31, 31 + 2 * MOST_FRAMES)), *looks, *map(Thinks, range(61, 64))]
    (column,) = read_columns(xray.trace(nn.Sequential(*parts), torch.rand(2, 5, WIDTH)))

    found = {branch.part for frame in column.frames for branch in frame.panels[0].staging.stage.branches}
    assert found == {"attention", "feed_forward"}


def test_layers_that_stand_in_frames_before_have_a_mark_where_the_next_frame_reads_them():
    layers, marks = read_frames((31, 43, 31, 57, 31))

    assert layers == [(0, 2), (1,), (3,), (4,)]
    assert marks == [[], [], ["LAYER 3, AS DRAWN BEFORE"], []]


def test_a_mark_of_layers_is_not_told_as_something_between_towers():
    torch.manual_seed(0)
    model = nn.Sequential(*map(Thinks, (31, 43, 31, 57, 31)))
    boxes = compose_poster(xray.trace(model, torch.rand(2, 5, WIDTH)), text_width).boxes

    texts = ["".join(run.text for run in line) for box in boxes for line in box.lines]
    assert "LAYER 3, AS DRAWN BEFORE" in texts
    assert "between towers" not in texts


def test_where_all_layers_are_in_frames_none_has_a_mark():
    layers, marks = read_frames([31, 43] * MOST_FRAMES)

    assert len(layers) == 2
    assert marks == [[], []]


class Looks(nn.Module):
    """Attention and a feed-forward, each of what a norm gives and added to that."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        x = self.first(x)
        x = self.second(x + self.attend(x, x, x)[0])
        return x + self.down(torch.relu(self.up(x)))


class Table(nn.Module):
    """Columns of each row look at each other, then whole rows do, and so on by turns (SAINT)."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(11, WIDTH), nn.Linear(WIDTH, 3)
        self.columns, self.rows = (nn.ModuleList(Looks(wide) for _ in range(2)) for wide in (WIDTH, 5 * WIDTH))

    def forward(self, ids):
        x = self.words(ids)
        for columns, rows in zip(self.columns, self.rows, strict=True):
            x = rows(columns(x).reshape(1, 6, -1)).reshape(6, 5, WIDTH)
        return self.head(x[:, 0])


def test_what_is_not_drawn_again_has_no_shape_where_that_which_is_drawn_ends_with_another_than_its_own():
    torch.manual_seed(0)
    boxes = compose_poster(xray.trace(Table(), torch.arange(30).reshape(6, 5) % 11), text_width).boxes
    lines = [["".join(run.text for run in line) for line in box.lines] for box in boxes]
    told = [line for line in lines if line and ("AS DRAWN BEFORE" in line[0] or "boxes as at" in line[0])]

    assert ["FEED-FORWARD  d_ff 180; boxes as at 3"] in told
    assert [line for line in told if "DRAWN BEFORE" in line[0]] == [["LAYER 3, AS DRAWN BEFORE"]]
