"""Queries of which some alone look, and a pool between layers: both have a box that says so (Informer)."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.stations.of_stations import describe_station
from xray.story.sheet.columns import read_columns

CHOSEN = 3


class LooksBest(nn.Module):
    """The queries whose scores stand out most look, all others get the mean of the values."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        query, key, value = (
            part(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2).flatten(0, 1) for part in (self.q, self.k, self.v)
        )
        measure = query @ key[:, :2].transpose(1, 2)
        best = (measure.max(-1)[0] - measure.mean(-1)).topk(CHOSEN).indices
        rows = torch.arange(len(query))[:, None]
        weights = (query[rows, best] @ key.transpose(1, 2) / 2.0).softmax(-1)
        found = value.mean(1, keepdim=True).expand_as(value).clone()
        found[rows, best] = weights @ value
        return x + self.out(found.view(x.shape[0], HEADS, x.shape[1], -1).transpose(1, 2).flatten(2))


class Shortens(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.MaxPool1d(3, stride=2, padding=1)

    def forward(self, x):
        return self.pool(self.conv(x.transpose(1, 2)).relu()).transpose(1, 2)


def labels_of(*parts):
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(nn.Sequential(*parts).eval(), torch.rand(2, 8, WIDTH)), all_layers=True)
    charts = [panel.chart for frame in column.frames for panel in frame.panels]
    charts += [frame.bridge for frame in column.frames if frame.bridge is not None]
    return {node.label: node.record.shape for chart in charts for node in chart.nodes if node.record is not None}


def test_queries_that_were_picked_by_their_scores_are_called_chosen():
    labels = labels_of(LooksBest(), FeedForwardPart(), LooksBest(), FeedForwardPart())

    assert labels["CHOSEN Q"] == (2 * HEADS, CHOSEN, WIDTH // HEADS)
    assert not [label for label in labels if "BESIDE" in label]


def test_chosen_queries_read_the_keys_by_which_they_are_chosen():
    torch.manual_seed(0)
    parts = (LooksBest(), FeedForwardPart(), LooksBest(), FeedForwardPart())
    (column,) = read_columns(xray.trace(nn.Sequential(*parts).eval(), torch.rand(2, 8, WIDTH)))
    chart = column.frames[0].panels[0].chart
    labels = {node.key: node.label for node in chart.nodes}

    led = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    assert {(one, other) for one, other in led if "CHOSEN Q" in (one, other)} == {
        ("HEADS Q", "CHOSEN Q"),
        ("HEADS K", "CHOSEN Q"),
        ("CHOSEN Q", "SCORES Q·K^T ÷ √d_k"),
    }
    assert ("LINEAR K", "HEADS K") in led


def test_the_formula_is_told_of_the_chosen_queries_alone():
    torch.manual_seed(0)
    parts = (LooksBest(), FeedForwardPart(), LooksBest(), FeedForwardPart())
    boxes = compose_poster(xray.trace(nn.Sequential(*parts).eval(), torch.rand(2, 8, WIDTH)), text_width).boxes
    texts = ["".join(run.text for run in line) for box in boxes for line in box.lines]

    assert [text for text in texts if text.startswith("attention") and "sums to 1" in text] == [
        "attention of chosen queries alone: each row sums to 1"
    ]


def test_a_pool_between_layers_has_a_box_and_axes_swapped_behind_it_are_none_of_a_layer():
    labels = labels_of(LooksBest(), FeedForwardPart(), Shortens(), LooksBest(), FeedForwardPart())

    assert labels["MAX POOL 3, STEP 2"] == (2, WIDTH, 4)
    assert "AXES SWAPPED" not in labels


@pytest.mark.parametrize(
    ("length", "told"), [(8, "Places look at other places."), (3, "Every place looks at every other.")]
)
def test_every_place_looks_only_where_all_queries_are_chosen(length, told):
    torch.manual_seed(0)
    model = nn.Sequential(LooksBest(), FeedForwardPart(), LooksBest(), FeedForwardPart()).eval()
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, length, WIDTH))).towers

    assert describe_station(tower, next(iter(tower.branches))) == told
