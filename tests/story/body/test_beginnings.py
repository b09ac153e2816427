"""What a stream goes through once before its first branch stands before the layers, and not in the first of them."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.attention.chart import chart_attention
from xray.story.body.reading import read_pass


class Turned(nn.Module):
    """Layers of places by sequences, as torch's own attention has them: their axes are swapped once before (FSMT)."""

    def __init__(self, *parts):
        super().__init__()
        self.lead, self.parts = nn.Linear(WIDTH, WIDTH), nn.ModuleList(parts)

    def forward(self, x):
        x = self.lead(x).transpose(0, 1)
        for part in self.parts:
            x = part(x)
        return x


class TurnsEach(Turned):
    """The same layers, each of which swaps the axes anew."""

    def forward(self, x):
        x = self.lead(x)
        for part in self.parts:
            x = part(x.transpose(0, 1))
        return x


class Residual(nn.Module):
    """A branch of convolutions, and the way past it through another one (ResNet)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.Conv2d(outputs, outputs, 1))
        self.past = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.past(x) + self.inner(x)


class AsksByPlace(nn.Module):
    """Attention whose queries and keys are the stream with places added, weighed by what it says itself (DAB-DETR)."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.scale, self.norm = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()), nn.LayerNorm(WIDTH)

    def forward(self, x):
        asked = x + self.scale(x) * torch.linspace(0, 1, x.shape[1])[:, None]
        rows = self.query(asked), self.key(asked), self.value(x)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


def read_first(model, *shape):
    torch.manual_seed(0)
    (one_pass,) = xray.trace(model.eval(), torch.rand(*shape)).passes
    reading = read_pass(one_pass)
    (tower,) = reading.towers
    return reading.flow, tower.stagings[0].branches[0]


def ops_of(flow, found):
    return [flow.op(node) for node in (found.region.start, *sorted(found.region.inner)) if flow.is_leaf(node)]


def test_axes_swapped_once_before_the_layers_are_swapped_in_none():
    flow, found = read_first(
        Turned(*(one() for _ in range(2) for one in (AttentionPart, FeedForwardPart))), 2, 5, WIDTH
    )

    assert ops_of(flow, found)[:2] == ["transpose", "layer_norm"]


def test_axes_that_each_layer_swaps_anew_are_swapped_in_it():
    layers = (nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(2))
    flow, found = read_first(TurnsEach(*layers), 2, 5, WIDTH)

    assert ops_of(flow, found)[:2] == ["linear", "transpose"]


def test_a_pool_before_the_first_of_some_convolutions_is_none_of_it():
    blocks = (Residual(4, 6), Residual(6, 6), Residual(6, 6))
    stem = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
    flow, found = read_first(nn.Sequential(*stem, *blocks), 2, 3, 8, 8)

    assert ops_of(flow, found)[:2] == ["max_pool2d", "conv2d"]


def test_an_arrow_leads_from_the_layers_input_to_all_that_reads_it():
    layers = (AsksByPlace(), FeedForwardPart(), AsksByPlace(), FeedForwardPart())
    flow, found = read_first(nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers), 2, 5, WIDTH)
    chart = chart_attention(flow, found)

    labels = {node.label for node in chart.nodes if node.key in chart.feet}
    assert labels == {"LINEAR", "MULTIPLIED, ADDED UP Q", "MULTIPLIED, ADDED UP K", "LINEAR V"}


class Macaron(nn.Module):
    """A feed-forward, attention and another feed-forward (Conformer)."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, x):
        first, attention, last = self.parts
        x = x + first.back(first.bend(first.wide(first.norm(x))))
        x = attention(x)
        return x + last.back(last.bend(last.wide(last.norm(x))))


class MovedFirst(nn.Module):
    """Layers that read what came in, its axes swapped (the Conformers of torchaudio)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Macaron() for _ in range(3))

    def forward(self, x):
        x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
        return x


def test_the_first_sum_of_a_layer_on_what_came_in_and_was_moved_is_the_layers_own():
    (tower,) = xray.anatomy(xray.trace(MovedFirst().eval(), torch.rand(5, 2, WIDTH))).towers

    assert [group.layers for group in tower.groups] == [(0, 1, 2)]
    kinds = [type(stage.branches[0]).__name__ for stage in tower.groups[0].stages]
    assert kinds == ["FeedForward", "Attention", "FeedForward"]
