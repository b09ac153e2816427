"""One norm that branches side by side read, each times a number of its own: it is drawn once."""

import pytest
import torch
from handwritten import Attention
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH = 15


class Layer(nn.Module):
    """Attention beside a feed-forward on one norm, which each of them multiplies by a number (Falcon-H1)."""

    def __init__(self, factors):
        super().__init__()
        self.weight, self.factors = nn.Parameter(torch.ones(WIDTH)), factors
        self.attention, self.wide, self.back = Attention(WIDTH, 3), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        read = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        one, other = (read * factor for factor in self.factors)
        return x + (self.attention(one, one) + self.back(nn.functional.gelu(self.wide(other))))


@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.5, 0.25)])
def test_a_norm_that_two_branches_read_is_drawn_once(factors):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(31, WIDTH), *(Layer(factors) for _ in range(3)), nn.Linear(WIDTH, 31))
    layout = compose_poster(xray.trace(model, torch.arange(14).view(2, 7)), text_width)

    texts = ["".join(run.text for line in box.lines for run in line) for box in layout.boxes]
    assert len([text for text in texts if text.startswith("RMS NORM  ")]) == 1
    assert any("in no box" in text or "× 0.5" in text for text in texts) == (factors != (1.0, 1.0))


class Mixed(nn.Module):
    """Before the norm of the attention the stream is mixed with what it was at first, by learned numbers (NeoMME)."""

    def __init__(self):
        super().__init__()
        self.shares, self.attention = nn.Parameter(torch.ones(2)), Attention(WIDTH, 3)
        self.wide, self.back = nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x, first):
        mixed = self.shares[0] * x + self.shares[1] * first
        normed = nn.functional.rms_norm(mixed, (WIDTH,))
        x = x + self.attention(normed, normed)
        return x + self.back(nn.functional.rms_norm(self.wide(x), (31,)).relu())


class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(31, WIDTH), nn.ModuleList(Mixed() for _ in range(3))

    def forward(self, ids):
        x = first = nn.functional.rms_norm(self.words(ids), (WIDTH,))
        for layer in self.layers:
            x = layer(x, first)
        return x


def test_what_a_stream_goes_through_before_queries_are_made_is_told_of_the_stream():
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(Mixes(), torch.arange(14).view(2, 7)))
    labels = [node.label for frame in column.frames for node in frame.panels[0].chart.nodes]

    assert "ADDED UP" in labels
    assert not [label for label in labels if "SHIFT" in label or "Q, K, V ×" in label]


def test_a_sum_with_what_the_first_layer_reads_says_so():
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(Mixes(), torch.arange(14).view(2, 7)))
    nodes = [node for frame in column.frames for node in frame.panels[0].chart.nodes]
    (mixed,) = [node for node in nodes if node.label == "ADDED UP"]

    assert mixed.told == ("with what the first layer reads × a learned number", "1 parameter")


def test_a_norm_of_what_a_stream_is_mixed_to_stands_before_the_sublayer():
    torch.manual_seed(0)
    anatomy = xray.anatomy(xray.trace(Mixes(), torch.arange(14).view(2, 7)))
    norms = [stage.norm for group in anatomy.towers[0].groups for stage in group.stages if "attention" in repr(stage)]

    assert {(norm.kind, norm.place, norm.learned) for norm in norms} == {("rms", "before", False)}


class MixesTheLast(Mixes):
    """Each layer is given what the one before was, in place of what the first one was."""

    def forward(self, ids):
        x = before = nn.functional.rms_norm(self.words(ids), (WIDTH,))
        for layer in self.layers:
            x, before = layer(x, before), x
        return x


def test_a_sum_with_what_another_layer_reads_does_not():
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(MixesTheLast(), torch.arange(14).view(2, 7)))

    nodes = [node for frame in column.frames for panel in frame.panels for node in panel.chart.nodes]
    assert not [node for node in nodes if "with what the first layer reads" in node.told]


class NormBeside(nn.Module):
    """Queries made of a waist, and of the same after a norm beside it (A.X K2)."""

    def __init__(self):
        super().__init__()
        self.down, self.norm, self.up = nn.Linear(WIDTH, 7), nn.RMSNorm(7), nn.Linear(14, WIDTH)
        self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        low = self.down(x)
        rows = self.up(torch.cat([self.norm(low), low], -1)), self.key(x), self.value(x)
        q, k, v = (one.unflatten(-1, (3, 5)).transpose(1, 2) for one in rows)
        weights = (q @ k.mT / 5**0.5).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


def test_what_a_norm_reads_and_what_it_gives_both_lead_to_where_they_stand_beside_each_other():
    model = nn.Sequential(nn.Embedding(31, WIDTH), NormBeside(), NormBeside(), nn.Linear(WIDTH, 31))
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))
    chart = column.frames[0].panels[0].chart
    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}

    assert {("DOWN Q", "NORM Q"), ("DOWN Q", "Q BESIDE ITS NORM"), ("NORM Q", "Q BESIDE ITS NORM")} <= ways


class Places(nn.Module):
    """One layer whose queries and keys have numbers that no one learned added, of rows laid as they come of a map."""

    def __init__(self):
        super().__init__()
        self.convolve, self.attend = nn.Conv1d(WIDTH, WIDTH, 1), nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.layer = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("places", torch.arange(7 * WIDTH).view(1, 7, WIDTH).sin())

    def forward(self, x):
        x = self.convolve(x).transpose(1, 2)
        asked = x + self.places
        x = self.norm(x + self.attend(asked, asked, x, need_weights=False)[0])
        return self.last(x + self.layer(x))


def test_a_first_layer_is_not_said_to_add_what_it_reads_to_itself():
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(Places(), torch.randn(1, WIDTH, 7)))
    told = [text for frame in column.frames for panel in frame.panels for one in panel.chart.nodes for text in one.told]

    assert not [text for text in told if "first layer" in text]
