"""A pass that broke off is drawn wherever it did: at a layer of the exit, at a sum, or behind what reads nothing."""

import torch
from changed_traces import break_off
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.charts.steps.operation_labels import label_softmax
from xray.story.compare.marks import mark_failures
from xray.story.poster import compose_poster


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.BatchNorm2d(6), nn.Conv2d(6, 11, 3, padding=1), nn.Conv2d(11, 6, 1)

    def forward(self, rows):
        return rows + self.narrow(self.wide(self.norm(rows)).relu())


class Mapped(nn.Module):
    """Blocks with learned places before them, whose end is cut and put behind rows of nothing before the head."""

    def __init__(self):
        super().__init__()
        self.stem, self.places = nn.Conv2d(3, 6, 2, stride=2), nn.Parameter(torch.zeros(1, 6, 4, 4))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.fuse, self.norm, self.head = nn.Conv2d(6, 13, 1), nn.LayerNorm(13), nn.Linear(13, 5)

    def forward(self, image):
        rows = self.stem(image) + self.places
        for block in self.blocks:
            rows = block(rows)
        rows = self.fuse(rows).flatten(2).transpose(1, 2)
        return self.head(self.norm(torch.cat((torch.zeros(2, 1, 13), rows), dim=1)[:, 1:])).softmax(-1)


def test_a_pass_that_broke_off_anywhere_is_drawn():
    trace = xray.trace(Mapped().eval(), torch.zeros(2, 3, 8, 8))
    steps = trace.passes[0].steps
    around = {step.parent for step in steps}
    for step in steps:
        if step.id not in around and step.op != "zeros":
            broken = break_off(trace, step.id, "RuntimeError: no")
            compose_poster(broken, text_width, marks=mark_failures(broken))


def test_a_softmax_that_failed_has_no_axis_to_tell():
    trace = xray.trace(Mapped().eval(), torch.zeros(2, 3, 8, 8))
    (last,) = (step.id for step in trace.passes[0].steps if step.op == "softmax")
    (broken,) = break_off(trace, last, "RuntimeError: no").passes
    flow = read_flow(broken)

    assert label_softmax(flow, flow.places[last]) == "SOFTMAX"
