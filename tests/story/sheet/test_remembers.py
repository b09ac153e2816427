"""Attention beside a convolution of its values, and a first layer that is wider than the stream (FunASR)."""

import pytest
import torch
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.sheet.columns import read_columns

WIDTH, WIDER, HEADS = 12, 20, 3


class Remembers(nn.Module):
    """Heads look at every place, and a convolution of the values is added to what they find."""

    def __init__(self, d_in):
        super().__init__()
        self.norm, self.query, self.key, self.value = (
            nn.LayerNorm(d_in),
            *(nn.Linear(d_in, WIDTH) for _ in range(3)),
        )
        self.out, self.memory = nn.Linear(WIDTH, WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.second, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        read = self.norm(x)
        value = self.value(read)
        query, key, seen = (
            side.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for side in (self.query(read), self.key(read), value)
        )
        weights = (query @ key.mT / 2).softmax(-1)
        found = self.out((weights @ seen).transpose(1, 2).flatten(2)) + self.memory(value.mT).mT
        x = found if x.shape[-1] != WIDTH else x + found
        return x + self.back(torch.relu(self.wide(self.second(x))))


def record(d_in):
    torch.manual_seed(0)
    model = nn.Sequential(Remembers(d_in), *(Remembers(WIDTH) for _ in range(3)))
    return xray.trace(model, torch.rand(2, 7, d_in))


@pytest.fixture(scope="module")
def trace():
    return record(WIDER)


def test_what_two_branches_go_through_is_one_box_that_leads_to_both(trace):
    charts = [panel.chart for column in read_columns(trace) for frame in column.frames for panel in frame.panels]
    chart = next(one for one in charts if any("CONVOLUTION" in node.label for node in one.nodes))
    labels = {node.key: node.label for node in chart.nodes}

    assert [label for label in labels.values() if label.startswith("LINEAR")].count("LINEAR") == 0
    after = {labels[edge.target].split(" ")[0] for edge in chart.edges if labels[edge.source] == "LINEAR V"}
    assert after == {"HEADS", "CONVOLUTION"}


def test_the_steps_of_an_attention_before_the_first_layer_stand_in_boxes(trace):
    (column,) = read_columns(trace)
    unsaid = dict(list_unsaid([column]))

    assert [node.label for node in column.entrance.nodes].count("LINEAR") == 4
    assert "linear" not in unsaid["entrance"]


def test_a_tower_whose_first_layer_is_like_the_others_leaves_nothing_unsaid_before_it():
    assert "entrance" not in dict(list_unsaid(read_columns(record(WIDTH))))
