"""What a sublayer begins with is led to every box that reads it, also to one that reads another box too."""

import pytest
import torch
from handwritten import Attention
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Mixed(nn.Module):
    """A convolution of normed rows beside these rows, or beside what is made of it."""

    def __init__(self, by):
        super().__init__()
        self.norm, self.mix, self.by = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1), by
        self.last = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        normed = self.norm(x)
        mixed = self.mix(normed.transpose(1, 2)).transpose(1, 2)
        return x + self.last(torch.cat((mixed, {"normed": normed, "itself": mixed.tanh()}[self.by]), dim=-1))


@pytest.mark.parametrize(("by", "is_led"), [("normed", True), ("itself", False)])
def test_a_norm_is_led_to_each_box_that_reads_it(by, is_led):
    model = nn.Sequential(Mixed(by), FeedForwardPart(), Mixed(by), FeedForwardPart()).eval()

    (column,) = read_columns(xray.trace(model, torch.ones(2, 7, WIDTH)))

    chart = column.frames[0].panels[0].chart
    labels = {node.key: node.label for node in chart.nodes}
    norm = next((key for key, label in labels.items() if label == "LAYER NORM"), None)
    led = [labels[edge.target] for edge in chart.edges if edge.source == norm] or [labels[key] for key in chart.feet]
    assert ("SIDE BY SIDE" in led) == is_led


class Remixed(nn.Module):
    """A convolution of the stream itself, of which the stream's own norm is taken away (RepMixer)."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.behind, self.own = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        turned = x.transpose(1, 2)
        return (turned + (self.behind(self.mix(turned)) - self.own(turned))).transpose(1, 2)


def test_a_norm_beside_a_convolution_that_reads_the_bare_stream_begins_nothing():
    model = nn.Sequential(Remixed(), FeedForwardPart(), Remixed(), FeedForwardPart()).eval()

    (column,) = read_columns(xray.trace(model, torch.ones(2, 7, WIDTH)))

    chart = column.frames[0].panels[1].chart
    labels = {node.key: node.label for node in chart.nodes}
    led = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    assert [labels[key] for key in chart.feet] == ["CONVOLUTION 3 BY CHANNEL", "BATCH NORM"]
    assert led == {("CONVOLUTION 3 BY CHANNEL", "BATCH NORM"), ("BATCH NORM", "SUBTRACTED"), ("SUBTRACTED", "ADD")}


class Weighed(nn.Module):
    """Parts of each row that are mixed by a small matrix, which is worked out of the normed row (AltUp)."""

    def __init__(self):
        super().__init__()
        self.norm, self.weigh = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 9)

    def forward(self, x):
        weights = self.weigh(self.norm(x)).tanh().unflatten(-1, (3, 3))
        return x + (weights @ x.unflatten(-1, (3, WIDTH // 3))).flatten(-2)


def test_the_stream_is_led_past_a_norm_to_what_reads_the_stream_itself():
    model = nn.Sequential(FeedForwardPart(), Weighed(), FeedForwardPart(), Weighed()).eval()

    (column,) = read_columns(xray.trace(model, torch.ones(2, 7, WIDTH)))

    chart = column.frames[0].panels[1].chart
    labels = {node.key: node.label for node in chart.nodes}
    led = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    assert [labels[key] for key in chart.feet] == ["LAYER NORM", "PRODUCT"]
    assert led == {("LAYER NORM", "LINEAR"), ("LINEAR", "TANH"), ("TANH", "PRODUCT"), ("PRODUCT", "ADD")}


class SumBehind(nn.Module):
    """Behind layers a linear layer of the mean of all rows, added to each, and a last one (SAM 3 adds prompts so)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))
        self.norm, self.ask, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x + self.ask(self.norm(x).mean(1, keepdim=True)))


def test_a_sum_behind_layers_of_what_they_gave_and_what_is_made_of_it_has_a_box():
    (column,) = read_columns(xray.trace(SumBehind(), torch.randn(2, 7, WIDTH)))
    labels = [node.label for node in column.exit.nodes]

    assert labels == ["LAYER NORM", "LINEAR OF A MEAN OF ROWS", "ADDED UP", "LINEAR"]
    assert column.exit.feet == (column.exit.nodes[0].key, column.exit.nodes[2].key)


class FewerWithFirst(nn.Module):
    """Several rows become one, and a row of the stream stands in front of them as it was (CANINE)."""

    def __init__(self, row):
        super().__init__()
        self.mix, self.row = nn.Conv1d(WIDTH, WIDTH, 2, stride=2), row

    def forward(self, x):
        return torch.cat((x[:, self.row : self.row + 1], self.mix(x.mT).mT), dim=1)


@pytest.mark.parametrize(
    ("row", "cut", "label"), [(0, [], "THE STREAM'S FIRST ROW IN FRONT: 1 + 3"), (2, ["1 OF 6 ROWS"], "END TO END")]
)
def test_the_first_row_that_goes_past_what_makes_rows_fewer_is_told(row, cut, label):
    blocks = [AttentionPart(), FeedForwardPart()]
    model = nn.Sequential(*blocks, FewerWithFirst(row), AttentionPart(), FeedForwardPart()).eval()

    (column,) = read_columns(xray.trace(model, torch.randn(2, 6, WIDTH)))

    charts = [frame.bridge for frame in column.frames if frame.bridge is not None]
    assert [node.label for chart in charts for node in chart.nodes] == [*cut, "CONVOLUTION 2, STEP 2", label]


class Meets(nn.Module):
    """What the heads found is laid beside the stream before the feed-forward, and all of it is one sum (LightGlue)."""

    def __init__(self):
        super().__init__()
        self.attention, self.wide, self.back = Attention(15, 3), nn.Linear(30, 34), nn.Linear(34, 15)

    def forward(self, x):
        both = torch.cat([x, self.attention(x, x)], dim=-1)
        return x + self.back(nn.functional.gelu(self.wide(both)))


def test_the_stream_is_led_to_what_lies_beside_it():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 15), *(Meets() for _ in range(3))).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, 7, 5)))
    chart = column.frames[0].panels[0].chart

    assert [node.key for node in chart.nodes if node.label == "BESIDE THE STREAM"] == [chart.feet[-1]]
    assert len(chart.feet) > 1


class OfSome(nn.Module):
    """Some channels of each row look, normed by themselves; the others may stand beside what these find (SHViT)."""

    def __init__(self, *, past):
        super().__init__()
        self.past, self.norm, self.qkv = past, nn.LayerNorm(7), nn.Linear(7, 21)
        self.end = nn.Linear(WIDTH if past else 7, WIDTH)

    def forward(self, x):
        own, others = x.split([7, WIDTH - 7], dim=-1)
        query, key, value = self.qkv(self.norm(own)).chunk(3, dim=-1)
        seen = (query @ key.mT / 7**0.5).softmax(-1) @ value
        return x + self.end(torch.cat([seen, others], dim=-1) if self.past else seen)


@pytest.mark.parametrize("past", [True, False])
def test_channels_that_stand_beside_what_others_find_come_from_the_stream(past):
    layers = (part for _ in range(2) for part in (OfSome(past=past), FeedForwardPart()))
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval()

    (column,) = read_columns(xray.trace(model, torch.ones(2, 5, WIDTH)))

    chart = column.frames[0].panels[0].chart
    assert [chart.node(key).label for key in chart.feet] == ["LAYER NORM", *["SIDE BY SIDE"] * past]
