"""Rows that some sublayers of a layer leave out, and that stand beside the others again at its end (InstructBLIP)."""

import pytest
import torch
from story.body.arrows import list_unproven
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import FeedForward
from xray.story.anatomy.wording import list_lines
from xray.story.poster import compose_poster
from xray.story.sentences.of_rows import OtherRows, describe_others
from xray.story.sheet.columns import read_columns
from xray.story.sheet.panels import chart_input

BATCH, ROWS, FIRST = 2, 11, 7


class Parted(nn.Module):
    """A layer whose first rows look at each other and think apart from the others."""

    def __init__(self, other, *, looks=True):
        super().__init__()
        self.look, self.again = AttentionPart(), AttentionPart() if looks else nn.Identity()
        self.think, self.other = FeedForwardPart(), other

    def forward(self, x):
        x = self.look(x)
        first, others = x[:, :FIRST, :], x[:, FIRST:, :]
        return torch.cat([self.think(self.again(first)), self.other(others)], dim=1)


class Reader(nn.Module):
    def __init__(self, *layers, head=None):
        super().__init__()
        self.words, self.layers, self.head = nn.Embedding(31, WIDTH), nn.Sequential(*layers), head or nn.Identity()

    def forward(self, ids):
        return self.head(self.layers(self.words(ids)))


def record(*layers, head=None):
    torch.manual_seed(0)
    return xray.trace(Reader(*layers, head=head).eval(), torch.arange(BATCH * ROWS).view(BATCH, ROWS))


def read_column(*layers, head=None):
    (column,) = read_columns(record(*layers, head=head))
    return column


def read_charts(column, number=0):
    return [panel.chart for panel in column.frames[number].panels]


def two_layers(**said):
    return [Parted(FeedForwardPart(19), **said) for _ in range(2)]


def test_rows_that_sublayers_take_alone_have_a_box_in_front_of_the_first_of_these():
    looking, thinking = read_charts(read_column(*two_layers(looks=False)))

    taken = thinking.node("taken")
    assert (taken.label, taken.record.shape) == ("THE FIRST 7 OF 11 ROWS", (BATCH, FIRST, WIDTH))
    assert thinking.feet == ("taken",)
    assert not any(node.key == "taken" for node in looking.nodes)


def test_the_way_past_such_a_sublayer_begins_at_the_rows_that_are_taken():
    layout = compose_poster(record(*two_layers(looks=False)), text_width)

    taken = next(box for box in layout.boxes if box.lines and box.lines[0][0].text == "THE FIRST 7 OF 11 ROWS")
    assert (taken.left, taken.y) in {curve.points[0] for curve in layout.curves if curve.kind == "skip"}


def test_a_later_sublayer_of_these_rows_takes_none_anew():
    _, again, thinking = read_charts(read_column(*two_layers()))

    assert [node.label for node in again.nodes] == ["SELF-ATTENTION OF THE FIRST 7 OF 11 ROWS"]
    assert not any(node.key == "taken" for node in thinking.nodes)


def test_all_rows_end_to_end_have_a_box_at_the_end_of_the_layer():
    *_, thinking = read_charts(read_column(*two_layers()))

    joined = thinking.nodes[-1]
    assert (joined.label, joined.record.shape) == ("END TO END: 7 + 4", (BATCH, ROWS, WIDTH))
    assert [edge.source for edge in thinking.edges if edge.target == joined.key] == ["add"]


def test_that_box_says_what_the_other_rows_went_through_and_counts_its_parameters():
    layers = two_layers()
    joined = read_charts(read_column(*layers))[-1].nodes[-1]

    assert joined.told == ("the last 4 rows: through a feed-forward of their own",)
    assert joined.extra == f"{sum(one.numel() for one in layers[0].other.parameters())} parameters"


def test_parts_of_the_other_rows_are_those_of_the_layer():
    layers = two_layers()
    found = xray.anatomy(record(*layers))
    (frame,) = read_column(*layers).frames

    others = found.towers[0].groups[0].stages[-1].others or ()
    assert [one.d_ff for one in others if isinstance(one, FeedForward)] == [19]
    assert found.untold == ()
    assert frame.params == sum(one.numel() for one in layers[0].parameters())


@pytest.mark.parametrize(
    ("count", "in_front", "through", "said"),
    [
        (3, False, ("feed-forward",), "the last 3 rows: through a feed-forward of their own"),
        (3, True, ("feed-forward",), "the first 3 rows: through a feed-forward of their own"),
        (1, False, ("feed-forward",), "the last row: through a feed-forward of its own"),
        (3, True, (), "the first 3 rows: as they were"),
        (1, True, (), "the first row: as it was"),
        (3, False, None, "the last 3 rows: worked out apart"),
    ],
)
def test_other_rows_are_told_by_their_number_their_place_and_their_way(count, in_front, through, said):
    assert describe_others(OtherRows(count, in_front, through)) == said


def test_the_next_layer_and_the_exit_are_reached_from_all_rows():
    column = read_column(*two_layers(), head=nn.Linear(WIDTH, 5))

    assert [node.label for node in column.exit.nodes] == ["LINEAR"]
    layout = compose_poster(record(*two_layers(), head=nn.Linear(WIDTH, 5)), text_width)
    joined = next(box for box in layout.boxes if box.lines and box.lines[0][0].text.startswith("END TO END"))
    assert any(curve.points[0] == (joined.x, joined.top) for curve in layout.curves)


def test_no_arrow_of_such_layers_is_unproven_and_nothing_is_left_without_a_box():
    layers = [*two_layers(), Parted(FeedForwardPart(19), looks=False)]
    trace = record(*layers)
    texts = {"".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes}

    assert list_unproven(read_columns(trace)) == []
    assert not any("in no box" in text or "Not drawn" in text for text in texts)


def test_a_sublayer_that_is_drawn_elsewhere_says_of_which_rows_it_is_and_shows_what_leaves_it():
    column = read_column(*two_layers(), Parted(FeedForwardPart(19), looks=False))
    closed = read_charts(column, 1)[-1]

    (node,) = closed.nodes
    assert (node.label, node.record.shape) == ("FEED-FORWARD OF THE FIRST 7 OF 11 ROWS, 4 BESIDE", (BATCH, ROWS, WIDTH))


def test_the_layer_reads_all_rows():
    column = read_column(*two_layers())

    entering = chart_input(column.frames[0].panels[0], column.look).nodes[0]
    assert entering.record.shape == (BATCH, ROWS, WIDTH)


def test_an_anatomy_in_words_tells_of_the_other_rows():
    (tower,) = xray.anatomy(record(*two_layers())).towers

    assert [line.part for line in list_lines(tower)][-1] == "∥ feed-forward of other rows"
