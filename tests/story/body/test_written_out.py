"""What is written out in several steps: an activation, the norm of an entrance, of queries and keys, before a gate."""

import re

import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.renderers.sheet.poster import draw_poster
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import read_pass
from xray.story.cards.pattern import list_parts
from xray.story.charts.stage_chart import chart_stage
from xray.story.charts.sum_chart import describe_sizes
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns

WORDS, PLACES = 23, 5
IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 8]])


def normalise(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class InOne(nn.Module):
    """Attention whose queries, keys and values are one product, taken apart at once; each is normalised then (GLM-OCR).

    What its heads found is normalised too, and gated (Muse Spark); a convolution of the values comes to it
    (Nyströmformer).
    """

    def __init__(self, *, gated=False, norm=None):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if norm is None else norm
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.near = nn.Conv2d(HEADS, HEADS, (3, 1), padding=(1, 0), groups=HEADS, bias=False)
        self.gate = nn.Linear(WIDTH, WIDTH) if gated else None

    def forward(self, x):
        given = self.norm(x)
        cut = self.qkv(given).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = cut.unbind(0)
        found = functional.scaled_dot_product_attention(normalise(query), normalise(key), value)
        if self.gate is None:
            return x + self.out((found + self.near(value)).transpose(1, 2).flatten(2))
        return x + self.out(normalise(found.transpose(1, 2)).flatten(2) * torch.sigmoid(self.gate(given)))


class Writer(nn.Module):
    """Words with places of a row that is held, their table two rows longer; an activation written out at the end."""

    def __init__(self, *layers):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(18, WIDTH)
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("row", torch.arange(16).view(1, -1) + 2)
        self.layers = nn.Sequential(*layers)
        self.last, self.norm, self.head = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.words(ids) + self.places(self.row[:, : ids.shape[1]])
        y = x - x.mean(-1, keepdim=True)
        x = y / torch.sqrt((y**2).mean(-1, keepdim=True) + 1e-6) * self.weight + self.bias
        x = self.last(self.layers(x))
        return self.head(self.norm(0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * torch.pow(x, 3))))))


def trace_of(*, gated=False):
    layers = [part for _ in range(2) for part in (InOne(gated=gated), FeedForwardPart())]
    return xray.trace(Writer(*layers), IDS)


def draw(trace):
    """The words of a poster, box after box."""
    return re.sub("<[^>]+>", "|", draw_poster(trace, "svg"))


def test_a_norm_that_is_written_out_is_a_norm_at_the_entrance_too():
    (tower,) = anatomy(trace_of()).towers

    assert [(one.part, one.size) for one in tower.entrance] == [("words", WORDS), ("positions", 18), ("norm", None)]
    drawn = draw(trace_of())
    assert "PLACE LOOKUP" in drawn
    assert "LEARNED ROW" not in drawn


class LearnedNorm(nn.Module):
    """A layer norm written out, whose learned numbers multiply last (x-clip)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        spread = torch.var(x, dim=-1, unbiased=False, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) * (spread + 1e-5).rsqrt() * self.weight


class Entered(nn.Module):
    """Words that are normalised before the first layer, whose attention begins with a norm of the same kind."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), LearnedNorm()
        looks = (InOne(norm=LearnedNorm()) for _ in range(2))
        self.layers = nn.Sequential(*(part for look in looks for part in (look, FeedForwardPart())))

    def forward(self, ids):
        return self.layers(self.norm(self.words(ids)))


def test_the_last_step_of_a_norm_before_the_first_layer_is_none_of_the_norm_that_reads_it():
    reading = read_pass(xray.trace(Entered(), IDS).passes[0])
    (tower,) = reading.towers
    norm = tower.layers[0][0].norms[0]

    assert tower.chains[0].start == norm.origin
    assert norm.origin not in norm.nodes
    assert chart_stage(reading.flow, tower.layers[0][0]).nodes[0].label == "LAYER NORM"


def test_an_activation_that_is_written_out_is_one_box():
    drawn = draw(trace_of())

    assert "GELU (tanh)" in drawn
    assert "MULTIPLIED" not in drawn


def test_norms_of_queries_and_keys_that_one_product_made_are_one_box_each():
    drawn = draw(trace_of())

    assert all(told in drawn for told in ("NORM Q", "NORM K", "+ CONVOLUTION 3×1 OF V"))
    assert not any(told in drawn for told in ("POW Q", "MEAN K", "RSQRT", "ROTATE"))


def test_a_norm_before_the_gate_of_the_heads_is_told_and_drawn_below_it():
    trace = trace_of(gated=True)
    (tower,) = anatomy(trace).towers
    drawn = draw(trace)

    assert {one.inner_norm for one in tower.branches if isinstance(one, Attention)} == {"rms"}
    assert drawn.index("WEIGHTS · V") < drawn.index("|RMS NORM") < drawn.index("× SIGMOID OF GATE")


class Thresholded(nn.Module):
    """A gated feed-forward whose gate lets numbers through that are far above the mean of their row (Gemma 3n)."""

    def __init__(self, times):
        super().__init__()
        self.norm, self.times = nn.LayerNorm(WIDTH), times
        self.gate, self.up, self.back = nn.Linear(WIDTH, 31), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        normed = self.norm(x)
        gate = self.gate(normed)
        if self.times:
            limit = gate.mean(-1, keepdim=True) + gate.std(-1, keepdim=True, unbiased=False) * self.times
            gate = functional.relu(gate - limit)
        return x + self.back(functional.gelu(gate) * self.up(normed))


def test_a_gate_above_a_threshold_is_told_and_parts_layers():
    layers = [layer for times in (1.6, 1.6, 0, 0) for layer in (AttentionPart(), Thresholded(times))]
    trace = xray.trace(Reader(*layers), rows())

    (tower,) = xray.anatomy(trace).towers
    assert [(group.layers, getattr(group.stages[1].branches[0], "threshold", None)) for group in tower.groups] == [
        ((0, 1), True),
        ((2, 3), None),
    ]
    (column,) = read_columns(trace)
    labels = [[node.label for node in frame.panels[-1].chart.nodes] for frame in column.frames]
    assert "GATE ABOVE A THRESHOLD + GELU" in labels[0]
    assert "GATE + GELU" in labels[1]


def test_which_layers_have_a_gate_above_a_threshold_is_told_and_what_of_it_goes_on():
    layers = [layer for times in (1.6, 1.6, 0, 0) for layer in (AttentionPart(), Thresholded(times))]
    trace = xray.trace(Reader(*layers), rows())
    (column,) = read_columns(trace)
    (tower,) = xray.anatomy(trace).towers

    assert (
        "In layers 1–2 of each of a gate's numbers only what lies above a cut goes on; the cut is the mean of its row"
        " and so many times its spread."
    ) in list_sentences(xray.anatomy(trace))
    assert [describe_sizes(frame.group.stages[-1].branches[0]) for frame in column.frames] == [
        "d_ff 31, above a threshold",
        "d_ff 31",
    ]
    assert [list_parts(tower, group)[-1] for group in tower.groups] == [
        "feed-forward (gate above a threshold)",
        "feed-forward",
    ]
