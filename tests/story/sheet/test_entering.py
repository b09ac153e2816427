"""The stream's way into a stage turns aside below the ribbon of a memory, and nowhere else is it lower."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.canvas import Canvas
from xray.story.charts.chart import LEFT, RIGHT, Chart, Node
from xray.story.layout import Box, Run
from xray.story.regions.ribbons.names import UNDER
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.canvas.placing import Placed
from xray.story.sheet.columns import read_columns
from xray.story.sheet.panels import chart_input, enter
from xray.story.sheet.standing import fills_corner

BELOW = Box("below", 60.0, 0.0, 80.0, 20.0, (), "panel")
BOXES = {
    "asks": Box("asks", 20.0, 100.0, 30.0, 20.0, (), "panel"),
    "looks": Box("looks", 100.0, 100.0, 30.0, 20.0, (), "panel"),
}


def lead_in(memory):
    canvas = Canvas(lambda text, size, weight: size * len(text) / 2)
    nodes = (Node("asks", "LINEAR Q", 0, LEFT), Node("looks", "LINEAR K", 0, RIGHT))
    feet = tuple(key for key in BOXES if key not in memory)
    enter(canvas, BELOW, Chart(nodes, (), feet, "asks", memory), Placed(BOXES, 110.0), Look("own", "memory", ()), 20.0)
    return [{y for _, y in curve.points} for curve in canvas.curves]


def test_the_stream_turns_aside_below_the_ribbon_of_a_memory():
    (heights,) = lead_in(("looks",))
    turned = [y for y in heights if BELOW.top < y < BOXES["asks"].bottom]

    assert min(turned) < BOXES["looks"].bottom - UNDER - 5
    assert all(y > 20 for y in turned)


def test_the_stream_turns_aside_close_below_its_readers_where_no_memory_comes_in():
    heights = lead_in(())

    assert len(heights) == 2
    assert all(any(y > BOXES["asks"].bottom - UNDER for y in one if y < BOXES["asks"].bottom) for one in heights)


@pytest.mark.parametrize(("text", "fills"), [("LINEAR", False), ("LINEAR TO CLASSES", True)])
def test_what_reaches_into_a_corner_leaves_no_room_for_a_number(text, fills):
    box = Box(
        "head", 50.0, 50.0, 100.0, 70.0, ((Run(text, 12),), (Run("2", 12),), (Run("3", 12),), (Run("4", 12),)), "own"
    )

    assert fills_corner(box, lambda text, size, weight: 6.0 * len(text)) == fills


def test_what_stands_lower_leaves_a_corner_free():
    wide = "what is told of it"
    box = Box("head", 50.0, 50.0, 100.0, 90.0, ((Run("A", 12),), (Run("2", 12),), (Run(wide, 12),)), "own")

    assert not fills_corner(box, lambda text, size, weight: 6.0 * len(text))


class Spread(nn.Module):
    """Rows that are repeated side by side, and laid out before the first layer reads them."""

    def forward(self, ids):
        return ids[:, None].expand(-1, 3, -1, -1).contiguous()


@pytest.mark.parametrize("spread", [False, True])
def test_what_enters_a_sublayer_in_one_box_is_what_made_the_stream(spread):
    begins = nn.Sequential(nn.Linear(5, WIDTH), Spread()) if spread else nn.Linear(5, WIDTH)
    parts = [AttentionPart(), FeedForwardPart(bend=nn.ReLU), *(AttentionPart(), FeedForwardPart()) * 2]
    (column,) = read_columns(xray.trace(nn.Sequential(begins, *parts), torch.randn(2, 6, 5)))
    panel = column.frames[0].panels[0]

    (node,) = chart_input(panel, column.look).nodes
    assert not panel.is_open
    assert ([step.op for step in node.steps], node.record) == (
        ["contiguous" if spread else "linear"],
        node.steps[0].outputs[0],
    )


def test_what_enters_an_open_sublayer_is_what_made_the_stream():
    parts = (part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))
    (column,) = read_columns(xray.trace(nn.Sequential(nn.Linear(5, WIDTH), *parts), torch.randn(2, 6, 5)))
    panel = column.frames[0].panels[0]

    (node,) = chart_input(panel, column.look).nodes
    assert panel.is_open
    assert ([step.path for step in node.steps], node.record) == (["0"], node.steps[0].outputs[0])
