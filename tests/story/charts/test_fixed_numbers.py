"""Fixed numbers that are taken off what comes in, or divide that: drawn, with what they meet."""

import pytest
import torch
from handwritten import Attention
from handwritten import Layer as Whole
from torch import nn

import xray
from xray.story.sheet.arrows.proof import keep_proven
from xray.story.sheet.columns import read_columns

WIDTH = 15


class Points(nn.Module):
    """Rows to which others are added that are worked out of points, brought to the size of a picture (SuperGlue)."""

    def __init__(self, bring):
        super().__init__()
        self.bring, self.encode = bring, nn.Sequential(nn.Linear(3, 11), nn.ReLU(), nn.Linear(11, WIDTH))
        self.layers = nn.ModuleList(Whole(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.out = nn.Linear(WIDTH, 4)

    def forward(self, rows, points, scores):
        size = torch.stack([points.new_tensor(32.0) * 10, points.new_tensor(24.0) * 10])[None]
        rows = rows + self.encode(torch.cat([self.bring(points, size), scores[..., None]], -1))
        for layer in self.layers:
            rows = layer(rows)
        return self.out(rows)


WRITINGS = {
    "both": (lambda x, size: (x - size[:, None] / 2) / (size.amax(1, True) * 0.7)[:, None], ["SUBTRACTED", "DIVIDED"]),
    "taken off": (lambda x, size: x - size[:, None], ["SUBTRACTED"]),
    "divided": (lambda x, size: x / size[:, None], ["DIVIDED"]),
    "in place": (lambda x, size: x.sub(size[:, None]).div_(size[:, None]), ["SUBTRACTED", "DIVIDED"]),
    "as it is": (lambda x, _: x, []),
}


@pytest.mark.parametrize(("bring", "told"), WRITINGS.values(), ids=WRITINGS)
def test_what_comes_in_and_fixed_numbers_meet_in_boxes(bring, told):
    given = torch.rand(2, 7, WIDTH), torch.rand(2, 7, 2), torch.rand(2, 7)
    (column,) = read_columns(xray.trace(Points(bring).eval(), *given))
    chart = column.entrance
    led = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}
    points = next(node for node in chart.nodes if node.record.shape == (2, 7, 2) and node.row == 0)

    assert [node.label for node in chart.nodes if node.label in ("SUBTRACTED", "DIVIDED")] == told
    assert (
        {(points.label, *told[:1]), (*told[-1:], "SIDE BY SIDE")} <= led if told else ("INPUT", "SIDE BY SIDE") in led
    )
    assert (("STACKED", told[0]) in led) if told else "STACKED" not in {node.label for node in chart.nodes}


class Again(nn.Module):
    """An encoder that reads its rows twice, the second time beside the squares of what it missed (TranAD)."""

    def __init__(self):
        super().__init__()
        self.bring, self.out = nn.Linear(10, WIDTH), nn.Linear(WIDTH, 5)
        self.layers = nn.ModuleList(Whole(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.last = nn.ModuleList(Whole(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))

    def forward(self, rows):
        first = self.bring(torch.cat([rows, torch.zeros_like(rows)], -1))
        for layer in self.layers:
            first = layer(first)
        missed = (self.out(first).sigmoid() - rows) ** 2
        second = self.bring(torch.cat([rows, missed], -1))
        for layer in self.last:
            second = layer(second)
        return self.out(second)


def test_what_comes_in_is_taken_off_what_was_worked_out_of_it_in_a_box():
    columns = keep_proven(read_columns(xray.trace(Again().eval(), torch.rand(2, 7, 5))))
    assert columns is not None
    chart = columns[1].entrance
    led = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}

    assert {("SIGMOID", "SUBTRACTED"), ("VECTORS", "SUBTRACTED"), ("SUBTRACTED", "POWER 2")} <= led
