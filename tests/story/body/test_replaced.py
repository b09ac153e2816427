"""Sublayers to which nothing is added: what they give takes the stream's place, and they are told as that."""

import pytest
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart, Reader, draw, read, rows
from torch import nn
from torch.nn import functional

from xray.story.anatomy.attentions import Attention
from xray.story.sentences.of_models import list_sentences

TAKEN = "what a sublayer gives takes the stream's place: nothing is added there."


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, WIDTH // HEADS)).transpose(1, 3).unbind(2)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))


class OtherLooks(Looks):
    """An attention of another class, as one that makes rows ready for a tower."""


class Layer(nn.Module):
    """An attention with its norm behind it, and a sum between them or none."""

    def __init__(self, *, adds=True, kind=Looks):
        super().__init__()
        self.look, self.norm, self.adds = kind(), nn.LayerNorm(WIDTH), adds

    def forward(self, x):
        found = self.look(x)
        return self.norm(x + found if self.adds else found)


def make(first):
    return Reader(first, FeedForwardPart(), Layer(), FeedForwardPart())


def list_stages(model):
    (tower,) = read(model, rows()).towers
    return [(stage.branches[0].part, stage.replaces) for group in tower.groups for stage in group.stages]


def test_an_attention_without_a_sum_takes_the_streams_place():
    model = make(Layer(adds=False))
    found = read(model, rows())

    first = found.towers[0].groups[0].stages[0]
    assert isinstance(first.branches[0], Attention)
    assert (first.replaces, first.norm.place, first.norm.on) == (True, "after", "stream")
    assert list_stages(model).count(("attention", None)) == 1
    assert f"In some layers {TAKEN}" in list_sentences(found)
    node = next(node for node in draw(model, rows()) if node.key == "add")
    assert (node.label, node.told) == ("LAYER NORM", ("takes the stream's place: nothing is added",))
    assert [step.op for step in node.steps] == ["layer_norm"]


@pytest.mark.parametrize("first", [Layer(), Layer(adds=False, kind=OtherLooks)])
def test_one_with_a_sum_or_that_is_no_layer_is_not_told_so(first):
    found = read(make(first), rows())

    assert not any(stage.replaces for tower in found.towers for group in tower.groups for stage in group.stages)
    assert not any("takes the stream's place" in line for line in list_sentences(found))


class ConvolvedLayer(nn.Module):
    """An attention and a feed-forward that are added, and a convolution between them that is added too, or is not."""

    def __init__(self, *, adds=False, groups=WIDTH):
        super().__init__()
        self.look, self.norm, self.adds = Looks(), nn.LayerNorm(WIDTH), adds
        self.local = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=groups)
        self.feed = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        x = x + self.look(self.norm(x))
        mixed = self.local(x.transpose(1, 2)).transpose(1, 2)
        x = x + mixed if self.adds else mixed
        return x + self.feed(x)


@pytest.mark.parametrize("groups", [1, WIDTH])
def test_a_convolution_between_two_sums_of_a_block_takes_the_streams_place(groups):
    model = Reader(*(ConvolvedLayer(groups=groups) for _ in range(3)))
    (tower,) = read(model, rows()).towers

    assert tower.layers == 3
    assert list_stages(model) == [("attention", None), ("convolution", True), ("feed_forward", None)]


def test_a_convolution_that_is_added_takes_no_place():
    stages = list_stages(Reader(*(ConvolvedLayer(adds=True) for _ in range(3))))
    assert stages == [("attention", None), ("convolution", None), ("feed_forward", None)]


def test_a_convolution_between_blocks_is_no_part_of_a_layer():
    class Down(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

        def forward(self, x):
            return self.conv(x.transpose(1, 2)).transpose(1, 2)

    model = Reader(Layer(), FeedForwardPart(), Down(), Layer(), FeedForwardPart())
    assert True not in {replaces for _, replaces in list_stages(model)}


class ThinkingLayer(nn.Module):
    """An attention that is added, with its norm, and a feed-forward that is added too, or is not."""

    def __init__(self, *, adds=False):
        super().__init__()
        self.look, self.norm, self.adds = Looks(), nn.LayerNorm(WIDTH), adds
        self.feed = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        x = self.norm(x + self.look(x))
        return x + self.feed(x) if self.adds else self.feed(x)


def test_a_feed_forward_that_ends_each_block_takes_the_streams_place():
    model = Reader(*(ThinkingLayer() for _ in range(3)))
    found = read(model, rows())
    (tower,) = found.towers

    assert [group.count for group in tower.groups] == [3]
    assert list_stages(model) == [("attention", None), ("feed_forward", True)]
    first = tower.groups[0].stages[0]
    assert (first.norm.place, first.norm.on) == ("after", "stream")
    assert f"In every layer {TAKEN}" in list_sentences(found)


@pytest.mark.parametrize(
    "layers",
    [
        [ThinkingLayer(adds=True), ThinkingLayer(adds=True)],
        [Layer(), FeedForwardPart(), Layer(), nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))],
    ],
)
def test_a_feed_forward_that_is_added_or_ends_no_block_takes_no_place(layers):
    assert True not in {replaces for _, replaces in list_stages(Reader(*layers))}
