"""Norms and sublayers that are scaled, shifted and gated by numbers which each place or frame has of its own."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.charts.steps.operation_labels import label_step
from xray.story.sheet.columns import read_columns


class ScaledPlaces(nn.Module):
    """What scales and shifts the last norm is laid out for each place, and added to a table (Helios)."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.time = nn.LayerNorm(12), Attention(12, 3), nn.Linear(5, 12)
        self.last, self.table, self.head = nn.LayerNorm(12), nn.Parameter(torch.randn(2, 12)), nn.Linear(12, 11)

    def forward(self, rows, time):
        made = self.time(time)[:, None].expand(-1, 7, -1)
        for _ in range(2):
            read = self.norm(rows) * (1 + made)
            rows = rows + self.mix(read, read)
        shift, scale = (self.table[None, None] + made.unsqueeze(2)).chunk(2, dim=2)
        return self.head(self.last(rows) * (1 + scale.squeeze(2)) + shift.squeeze(2))


def test_what_scales_and_shifts_the_last_norm_is_drawn_once():
    (column,) = read_columns(xray.trace(ScaledPlaces(), torch.rand(2, 7, 12), torch.rand(2, 5)))

    assert [node.label for node in column.exit.nodes] == ["LAST NORM, SCALED AND SHIFTED", "LINEAR"]
    assert [step.op for step in column.exit.nodes[0].steps] == ["layer_norm", "mul", "add"]


class GatedFrames(nn.Module):
    """What a sublayer gives is laid out in frames, and each of these let through by a gate of its own (SANA-WM)."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.time = nn.LayerNorm(12), Attention(12, 3), nn.Linear(5, 12)

    def forward(self, rows, time):
        gate = self.time(time)[:, :, None]
        for _ in range(2):
            read = self.norm(rows)
            rows = rows + (gate * self.mix(read, read).reshape(2, 7, 11, 12)).reshape(2, 77, 12)
        return rows


def test_rows_that_are_laid_out_again_behind_a_gate_are_no_second_one():
    one_pass = xray.trace(GatedFrames(), torch.rand(2, 77, 12), torch.rand(2, 7, 5)).passes[0]
    stage = read_pass(one_pass).towers[0].layers[0][0]

    labels = [node.label for node in chart_stage(read_flow(one_pass), stage).nodes]
    assert labels[-4:] == ["LAID OUT IN 7 ROWS OF 11", "× GATE", "LAID OUT IN ONE ROW", "ADD"]


class TwoTimes(nn.Module):
    """Scales of the first places are made of a time of their own, and stand before those of the others (Helios)."""

    def __init__(self):
        super().__init__()
        self.time = nn.Linear(5, 24)

    def forward(self, rows, time):
        first = self.time(time[:1]).unflatten(-1, (2, 12))[:, :, None].expand(2, -1, 3, -1)
        others = self.time(time).unflatten(-1, (2, 12))[:, :, None].expand(-1, -1, 4, -1)
        scale, shift = torch.cat([first, others], dim=2).unbind(1)
        return rows * (1 + scale) + shift


def test_scales_of_some_places_stand_before_those_of_others_end_to_end():
    flow = read_flow(xray.trace(TwoTimes(), torch.rand(2, 7, 12), torch.rand(2, 5)).passes[0])

    (joining,) = (node for node, step in enumerate(flow.steps) if step.op == "cat")
    assert label_step(flow, joining) == "END TO END"


def test_columns_of_one_number_lie_side_by_side():
    class Columns(nn.Module):
        def forward(self, rows):
            return torch.cat([rows.sum(-1, keepdim=True), rows.mean(-1, keepdim=True)], dim=-1)

    flow = read_flow(xray.trace(Columns(), torch.rand(2, 7, 12)).passes[0])

    (joining,) = (node for node, step in enumerate(flow.steps) if step.op == "cat")
    assert label_step(flow, joining) == "SIDE BY SIDE"
