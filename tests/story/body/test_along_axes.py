"""Attention along one whole axis of several, the others being folded into the batch: it runs in no windows."""

import pytest
import torch
from handwritten import Attention
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sentences.stations.of_stages import describe_stage
from xray.story.sheet.columns import read_columns

BATCH, SERIES, TIMES, CLASSES = 2, 5, 7, 3


class Along(nn.Module):
    """Rows look at those along one axis, all of them, back alone or in windows of two; or the first few alone ask."""

    def __init__(self, axis, *, window=None, looks_back=False, asking=None):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)
        self.axis, self.window, self.looks_back, self.asking = axis, window, looks_back, asking

    def forward(self, x):
        rows = self.norm(x).transpose(self.axis, 2)
        asked = rows.reshape(-1, self.window or rows.shape[2], WIDTH)
        asks = asked if self.asking is None else rows[:, :, : self.asking].flatten(0, 1)
        hidden = torch.ones(asks.shape[1], asked.shape[1], dtype=torch.bool).triu(1) if self.looks_back else None
        made = self.attention(asks, asked, hidden).view(*rows.shape[:2], -1, WIDTH)
        return x[:, :, : self.asking] + made.transpose(self.axis, 2)


def read_trace(*parts, times=TIMES):
    layers = [one for part in parts for one in (part, FeedForwardPart())]
    return xray.trace(nn.Sequential(nn.Linear(5, WIDTH), *layers).eval(), torch.rand(BATCH, SERIES, times, 5))


def tell_attentions(trace):
    (tower,) = xray.anatomy(trace).towers
    stages = [stage for group in tower.groups for stage in group.stages]
    return [describe_stage(tower, stage) for stage in stages if stage.branches[0].part == "attention"]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"axis": 1}, "Every place looks at every other of the 5 in its sequence."),
        ({"axis": 2}, "Every place looks at every other of the 7 in its sequence."),
        ({"axis": 2, "looks_back": True}, "Every place looks back, never ahead."),
    ],
)
def test_attention_along_a_whole_axis_runs_in_no_windows(part, told):
    trace = read_trace(Along(**part), Along(**part))
    labels = [
        node.label
        for one in read_columns(trace)
        for panel in one.phases[0].frames[0].panels
        for node in panel.chart.nodes
    ]

    assert {*tell_attentions(trace)} == {told}
    assert "WEIGHTS · V" in labels
    assert not [label for label in labels if "WINDOW" in label]


def test_a_part_of_an_axis_is_a_window():
    assert {*tell_attentions(read_trace(Along(2, window=2), Along(2, window=2), times=6))} == {
        "Every place looks at no more than 2 places."
    }


def test_rows_that_ask_alone_are_not_told_to_look_at_every_other():
    trace = read_trace(Along(2), Along(2, asking=CLASSES))

    assert tell_attentions(trace)[-1] == "Places look at other places."


def test_a_closed_box_says_how_many_places_look_at_each_other_along_its_axis():
    back = [Along(2, looks_back=True) for _ in range(2)]
    (column,) = read_columns(read_trace(*back, Along(1)))

    closed = [node.extra for panel in column.frames[-1].panels for node in panel.chart.nodes if node.key == "closed"]
    assert closed[0] == f"3 heads of {WIDTH // 3}, {SERIES} places in a sequence; boxes as at 2 without MASK"
