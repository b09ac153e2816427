"""Rows that one step cuts in two, a sublayer working on one part alone: told as where each is taken by itself."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.body.reading import read_pass
from xray.story.charts.between_chart import add_parted
from xray.story.charts.stage_chart import chart_stage

WIDTH, PAST, NOW = 15, 3, 7


class Historic(nn.Module):
    """All rows look at each other, those of now at a text too, or all of them (Helios)."""

    def __init__(self, *, parts):
        super().__init__()
        self.parts, self.layer = parts, Layer(WIDTH, Attention(WIDTH, 3), norm="before")
        self.norm, self.ask = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)

    def forward(self, x, text):
        x = self.layer(x)
        if not self.parts:
            return x + self.ask(self.norm(x), text)
        past, now = x.split([PAST, NOW], dim=1)
        return torch.cat([past, now + self.ask(self.norm(now), text)], dim=1)


class Film(nn.Module):
    def __init__(self, *, parts):
        super().__init__()
        self.given, self.out = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 4)
        self.layers = nn.ModuleList(Historic(parts=parts) for _ in range(3))

    def forward(self, x, text):
        x = self.given(x)
        for layer in self.layers:
            x = layer(x, text)
        return self.out(x)


def list_boxes(*, parts):
    trace = xray.trace(Film(parts=parts).eval(), torch.randn(2, PAST + NOW, 4), torch.randn(2, 5, WIDTH))
    reading = read_pass(trace.passes[0])
    layer = reading.towers[0].layers[1]
    charts = [add_parted(reading.flow, one, chart_stage(reading.flow, one)) for one in layer]
    return {node.key: (node.label, node.told) for chart in charts for node in chart.nodes}


def test_rows_of_which_one_step_takes_both_parts_are_said_to_go_by():
    boxes = list_boxes(parts=True)

    assert boxes["taken"] == (f"ALL ROWS BUT THE FIRST {PAST}", ())
    assert boxes["rejoined"] == (f"END TO END: {PAST} + {NOW}", (f"the first {PAST} rows: as they were",))
    assert not {"taken", "rejoined"} & list_boxes(parts=False).keys()
