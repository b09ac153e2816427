"""Rows that a stream goes on without for several layers, and that stand beside the others again behind these."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.charts.bridge_chart import chart_bridge
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns

PLACES, INNER = 7, 18


class Looking(nn.Module):
    """One row, brought to another width, looks at itself and at rows of a tower before."""

    def __init__(self):
        super().__init__()
        self.out, self.norm, self.back = nn.Linear(WIDTH, INNER), nn.LayerNorm(INNER), nn.Linear(INNER, WIDTH)
        self.q, self.kv = nn.Linear(INNER, INNER), nn.Linear(INNER, 2 * INNER)

    def forward(self, x, others):
        rows = self.norm(self.out(x))
        parts = (self.q(rows), *self.kv(torch.cat([rows, others], dim=1)).chunk(2, -1))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        found = functional.scaled_dot_product_attention(query, key, value)
        return x + self.back(found.transpose(1, 2).flatten(2))


class Alone(nn.Module):
    """Layers of all rows, of the first one alone, and of all rows again (CrossViT)."""

    def __init__(self):
        super().__init__()
        self.before, self.alone, self.behind = (self.make_layers() for _ in range(3))

    def make_layers(self):
        return nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))

    def forward(self, x):
        x = self.before(x)
        return self.behind(torch.cat([self.alone(x[:, :1]), x[:, 1:]], dim=1))


class Beside(nn.Module):
    """A row that looks at what another tower gives, in every layer."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(5, INNER), *(Wide() for _ in range(2)))
        self.row, self.looking = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.ModuleList(Looking() for _ in range(2))
        self.thinking = nn.ModuleList(FeedForwardPart() for _ in range(2))

    def forward(self, given):
        rows, x = self.rows(given), self.row.expand(len(given), -1, -1)
        for look, think in zip(self.looking, self.thinking, strict=True):
            x = think(look(x, rows))
        return x


class Wide(FeedForwardPart):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(INNER), nn.Linear(INNER, 37), nn.Linear(37, INNER)


def read_all(model, width=5):
    torch.manual_seed(0)
    return read_columns(xray.trace(model.eval(), torch.rand(BATCH, PLACES, width)))


@pytest.fixture(scope="module")
def column():
    (found,) = read_all(nn.Sequential(nn.Linear(5, WIDTH), Alone()))
    return found


def read_boxes(column, layer):
    chart = chart_bridge(column.reading.flow, column.towering, (layer,))
    return [] if chart is None else [(node.label, node.record.shape, node.told) for node in chart.nodes]


def test_rows_that_go_on_alone_are_taken_before_the_first_layer_of_them(column):
    assert [frame.group.layers for frame in column.frames] == [(0, 1), (2, 3), (4, 5)]
    assert read_boxes(column, 2) == [("THE FIRST ROW", (BATCH, 1, WIDTH), ())]
    assert read_boxes(column, 3) == []


def test_rows_that_were_left_out_are_put_beside_the_others_before_the_next_layer(column):
    told = (f"{PLACES - 1} left out behind layer 2",)
    assert read_boxes(column, 4) == [(f"END TO END: 1 + {PLACES - 1}", (BATCH, PLACES, WIDTH), told)]


def test_a_layer_of_rows_that_go_on_alone_begins_with_these(column):
    charts = [frame.panels[0].chart for frame in column.frames[1:2]]
    labels = [node.label for chart in charts for node in chart.nodes]
    assert "CUT ANEW" not in labels
    assert not [label for label in labels if "ROW" in label]


def test_what_stands_before_linear_layers_for_queries_keys_and_values_makes_none_of_them():
    column = read_all(Beside())[-1]
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert labels[:2] == ["LINEAR", "LAYER NORM"]
    assert {"LINEAR Q", "ONE LINEAR FOR K, V"} <= {*labels}


class Chosen(nn.Module):
    """Layers of all rows, and of those that score best (TransFG), or of the means of a few."""

    def __init__(self, chooses):
        super().__init__()
        self.before, self.behind = (
            nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))) for _ in range(2)
        )
        self.chooses = chooses

    def forward(self, x):
        x = self.before(x)
        if self.chooses:
            best = x.sum(-1).topk(3).indices
            return self.behind(x.gather(1, best[..., None].expand(-1, -1, WIDTH)))
        return self.behind(x.unflatten(1, (3, 4)).mean(2))


@pytest.mark.parametrize("chooses", [True, False])
def test_of_rows_that_are_chosen_several_do_not_become_one(chooses):
    trace = xray.trace(Chosen(chooses).eval(), torch.rand(BATCH, 12, WIDTH))

    told = list_sentences(xray.anatomy(trace))
    assert ("Stages: between them 4 places become one." in told) == (not chooses)
