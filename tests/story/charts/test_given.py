"""What comes in is led to what is made of its numbers, and to nothing that takes its shape alone."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.charts.chart import Chart, Edge
from xray.story.sheet.columns import read_columns


class Scaled(nn.Module):
    """A series brought to mean 0 and variance 1 over the places that are observed: all of them (PatchTST)."""

    def __init__(self):
        super().__init__()
        self.enter, self.layers = nn.Linear(1, WIDTH), nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, past_values):
        observed = torch.ones_like(past_values)
        count = observed.sum(1, keepdim=True).clamp_min(1.0)
        middle = (past_values * observed).sum(1, keepdim=True) / count
        spread = (((past_values - middle) * observed) ** 2).sum(1, keepdim=True) / count
        return self.layers(self.enter((past_values - middle) / torch.sqrt(spread + 1e-5)))


def entrance_of(model, given) -> Chart:
    (column,) = read_columns(xray.trace(model.eval(), given))
    assert column.entrance is not None
    return column.entrance


def list_led(chart: Chart) -> list[str]:
    """The labels of the boxes to which a line leads from what comes in."""
    labels = {node.key: node.label for node in chart.nodes}
    given = [node.key for node in chart.nodes if node.key.startswith("given")]
    return [labels[edge.target] for edge in chart.edges if edge.source in given]


def test_a_series_is_led_to_its_mean_and_to_what_its_mean_is_taken_from():
    chart = entrance_of(Scaled(), torch.ones(2, 19, 1))

    assert list_led(chart) == ["DIVIDED", "POWER 2", "DIVIDED"]


def test_what_is_made_of_a_shape_alone_is_no_box():
    chart = entrance_of(Scaled(), torch.ones(2, 19, 1))

    assert "CLAMP MIN" not in {node.label for node in chart.nodes}
    assert Edge("given", chart.nodes[1].key) in chart.edges
