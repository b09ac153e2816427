"""What other towers give behind a tower's layers, below several heads: finer maps, and words looked at (SAM 3)."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.story.sheet.columns import read_columns

BATCH, NUMBERS, SIDE, WORDS, HEADS = 2, 7, 3, 5, 2
WIDE, WIDTH, MASKS = 14, 6, 11


class Looking(nn.Module):
    """Rows look at themselves, or at others."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.query, self.out = (made(width) for made in (nn.LayerNorm, self.layer, self.layer))
        self.key, self.value = self.layer(width), self.layer(width)

    @staticmethod
    def layer(width):
        return nn.Linear(width, width)

    def forward(self, x, other=None):
        normed = self.norm(x)
        read = normed if other is None else other
        heads = [self.query(normed), self.key(read), self.value(read)]
        made = functional.scaled_dot_product_attention(
            *(one.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for one in heads)
        )
        return x + self.out(made.transpose(-2, -3).flatten(-2))


class Layer(nn.Module):
    """Attention, to others too where there are any, and a feed-forward."""

    def __init__(self, width, *, crosses=False):
        super().__init__()
        self.own, self.across = Looking(width), Looking(width) if crosses else None
        self.think = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 17), nn.GELU(), nn.Linear(17, width))

    def forward(self, x, other=None):
        x = self.own(x)
        x = x if self.across is None else self.across(x, other)
        return x + self.think(x)


class Encoder(nn.Module):
    """Places that look at words."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(WIDTH, crosses=True) for _ in range(2))

    def forward(self, x, words):
        for layer in self.layers:
            x = layer(x, words)
        return x


def lay_out(x):
    return x.transpose(1, 2).unflatten(-1, (SIDE, SIDE))


class Masks(nn.Module):
    """Places look at words once more, are made finer, and added to a finer map of the image, or of their own."""

    def __init__(self, heads, *, own):
        super().__init__()
        self.look, self.own, self.even = Looking(WIDTH), own, nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.finer = nn.ConvTranspose2d(WIDTH if own else WIDE, WIDTH, 2, stride=2)
        self.heads = nn.ModuleList(nn.Conv2d(WIDTH, MASKS + number, 1) for number in range(heads))

    def forward(self, x, words, image):
        fine = self.finer(lay_out(x) if self.own else image)
        coarse = functional.interpolate(lay_out(self.look(x, words)), size=fine.shape[-2:])
        made = torch.relu(self.even(coarse + fine))
        return [head(made) for head in self.heads]


class Segmenter(nn.Module):
    """An eye, what reads words, and what looks from the one to the other."""

    def __init__(self, heads=2, *, own=False):
        super().__init__()
        self.patches, self.table = nn.Linear(NUMBERS, WIDE), nn.Linear(NUMBERS, WIDTH)
        self.eye = nn.Sequential(Layer(WIDE), Layer(WIDE))
        self.reader = nn.Sequential(Layer(WIDTH), Layer(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
        self.narrow, self.encoder, self.masks = nn.Conv2d(WIDE, WIDTH, 1), Encoder(), Masks(heads, own=own)

    def forward(self, image, text):
        seen, words = lay_out(self.eye(self.patches(image))), self.reader(self.table(text))
        x = self.narrow(seen).flatten(2).transpose(1, 2)
        return self.masks(self.encoder(x, words), words, seen)


def chart(**ways):
    torch.manual_seed(0)
    given = (torch.randn(BATCH, places, NUMBERS) for places in (SIDE * SIDE, WORDS))
    *_, column = read_columns(xray.trace(Segmenter(**ways).eval(), *given))
    return column.exit


def list_edges(found):
    labels = {node.key: node.label for node in found.nodes}
    return {(labels[edge.source], labels[edge.target]) for edge in found.edges}


@pytest.mark.parametrize("heads", [1, 2])
def test_a_finer_map_of_another_tower_is_led_to_the_sum_below_the_heads(heads):
    found = chart(heads=heads)
    (finer,) = [node for node in found.nodes if node.label.startswith("TRANSPOSED")]

    assert [node.label for node in found.nodes if node.label == "CONVOLUTION 1×1"] == ["CONVOLUTION 1×1"] * heads
    assert (finer.surface, finer.key in found.memory) == ("memory", True)
    assert {("RESIZED", "ADDED UP"), (finer.label, "ADDED UP"), ("ADDED UP", "CONVOLUTION 3×3")} <= list_edges(found)


def test_a_finer_map_of_the_towers_own_is_of_no_other_tower():
    found = chart(own=True)

    assert [node.label for node in found.nodes if node.surface == "memory"] == ["LINEAR V", "LINEAR K"]


def test_an_attention_behind_layers_has_its_keys_and_values_of_another_tower():
    found = chart()
    scores, weighed = "SCORES Q·K^T ÷ √d_k", "WEIGHTS · V"

    assert {"LINEAR K", "LINEAR V"} <= {found.node(key).label for key in found.memory}
    assert {("LINEAR Q", scores), ("LINEAR K", scores), ("SOFTMAX", weighed), ("LINEAR V", weighed)} <= list_edges(
        found
    )
