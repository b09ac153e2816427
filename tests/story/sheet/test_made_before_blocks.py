"""What runs once before the blocks of layers, or in another tower's layers, is no layer's own."""

import torch
from handwritten import Attention
from story.body.test_mistaken import HEADS, WIDTH
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_frames


class OfPairs(nn.Module):
    """Attention whose scores get a number made of each pair."""

    def __init__(self):
        super().__init__()
        self.qkv, self.far, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(5, HEADS), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, pairs):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.mT + self.far(pairs).permute(0, 3, 1, 2)
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class LayerOfPairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.look, self.norm, self.last = OfPairs(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, pairs):
        x = self.norm(x + self.look(x, pairs))
        return self.last(x + self.think(x))


class Paired(nn.Module):
    """Pairs are made of the stream once, and all layers read them (Genie)."""

    def __init__(self):
        super().__init__()
        self.words, self.one, self.other = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 5)
        self.layers = nn.ModuleList(LayerOfPairs() for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        pairs = self.one(x)[:, :, None] + self.other(x)[:, None]
        for layer in self.layers:
            x = layer(x, pairs)
        return x


class Mapped(nn.Module):
    """A block of a mapping, whose first weight is turned before it works (HDiT)."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Parameter(torch.rand(20, WIDTH)), nn.Linear(20, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.norm(x) @ self.up.mT))


class Scaled(nn.Module):
    """A layer whose attention reads rows that a condition scales."""

    def __init__(self):
        super().__init__()
        self.by, self.look, self.norm = nn.Linear(WIDTH, WIDTH), Attention(WIDTH, HEADS), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, given):
        rows = x * (x * x).mean(-1, keepdim=True).rsqrt() * (self.by(given)[:, None] + 1)
        x = x + self.look(rows, rows)
        return x + self.think(self.norm(x))


class Conditioned(nn.Module):
    """A class goes through layers of its own, and scales rows in those of the words."""

    def __init__(self):
        super().__init__()
        self.words, self.classes = nn.Embedding(31, WIDTH), nn.Embedding(5, WIDTH)
        self.mapping, self.layers = (nn.ModuleList(kind() for _ in range(2)) for kind in (Mapped, Scaled))
        self.out = nn.LayerNorm(WIDTH)

    def forward(self, ids, classes):
        x, given = self.words(ids), self.classes(classes)
        for block in self.mapping:
            given = block(given)
        given = self.out(given)
        for layer in self.layers:
            x = layer(x, given)
        return x


def count(module):
    return sum(one.numel() for one in module.parameters())


def test_what_is_made_of_the_stream_for_all_layers_is_not_the_first_ones():
    (column,) = read_columns(xray.trace(Paired().eval(), torch.arange(14).view(2, 7)))
    frames = count_frames(column.reading, column.towering, column.frames, {})

    boxes = [box for frame in frames for panel in frame.panels for box in panel.chart.nodes]
    assert {frame.params for frame in frames} == {count(LayerOfPairs())}
    assert [box.extra for box in boxes if "BIAS" in box.label] == [f"{5 * HEADS + HEADS} parameters"]


def test_what_layers_of_another_tower_work_with_is_not_the_first_ones():
    columns = read_columns(xray.trace(Conditioned().eval(), torch.arange(14).view(2, 7), torch.arange(2)))
    counted = [count_frames(one.reading, one.towering, one.frames, {}) for one in columns]

    assert [{frame.params for frame in frames} for frames in counted] == [{count(Mapped())}, {count(Scaled())}]


class LooksTwice(nn.Module):
    """Two layers read rows, and others after them; the last layer looks at what became of these (AiATrack)."""

    def __init__(self):
        super().__init__()
        self.words, self.layers, self.last = nn.Embedding(31, WIDTH), nn.ModuleList(), nn.ModuleList()
        self.layers.extend(LayerOfThree() for _ in range(2))
        self.last.append(LayerOfThree())

    def forward(self, ids, others):
        x, memory = self.words(ids), self.words(others)
        for layer in self.layers:
            x = layer(x, x)
        for layer in self.layers:
            memory = layer(memory, memory)
        return self.last[0](x, memory)


class LayerOfThree(LayerOfPairs):
    """A layer whose queries, keys and values are made by thirds of one parameter."""

    def __init__(self):
        super().__init__()
        self.look, self.thirds, self.out = None, nn.Parameter(torch.rand(3 * WIDTH, WIDTH)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, memory):
        made = (nn.functional.linear(*one) for one in zip((x, memory, memory), self.thirds.chunk(3), strict=True))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in made)
        found = (query @ key.mT / key.shape[-1] ** 0.5).softmax(-1) @ value
        x = self.norm(x + self.out(found.transpose(1, 2).flatten(2)))
        return self.last(x + self.think(x))


def test_what_layers_work_with_is_theirs_where_a_later_one_reads_what_they_make_of_other_rows():
    columns = read_columns(xray.trace(LooksTwice().eval(), torch.arange(14).view(2, 7), torch.arange(10).view(2, 5)))
    counted = [count_frames(one.reading, one.towering, one.frames, {}) for one in columns]

    assert {frame.params for frames in counted for frame in frames} == {count(LayerOfThree())}
