"""Layers are the blocks of the lists that a model has, one for each stage or one in all, and nothing else is one."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, ConvolutionPart, FeedForwardPart, read, rows
from story.body.test_numbered import SIDE, Block, Layer, Near
from torch import nn

from xray.story.anatomy.tree import EntrancePart


class Stage(nn.Module):
    """Blocks, and before them what makes rows anew and thinks about each (LeViT)."""

    def __init__(self, *blocks, before):
        super().__init__()
        self.before = nn.Sequential(nn.Linear(WIDTH, WIDTH), *before)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        x = self.before(x)
        for block in self.blocks:
            x = block(x)
        return x


class Staged(nn.Module):
    """Some stages of blocks."""

    def __init__(self, *stages, before=()):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        self.stages = nn.ModuleList(
            Stage(*blocks, before=before if number else ()) for number, blocks in enumerate(stages)
        )

    def forward(self, x):
        x = self.given(x)
        for stage in self.stages:
            x = stage(x)
        return x


class Parted(Staged):
    """The same, with a convolution of another list behind the first block of each stage (Twins)."""

    def __init__(self, *stages):
        super().__init__(*stages)
        self.places = nn.ModuleList(ConvolutionPart() for _ in stages)

    def forward(self, x):
        x = self.given(x)
        for stage, place in zip(self.stages, self.places, strict=True):
            first, *others = stage.blocks
            x = place(first(stage.before(x)))
            for block in others:
                x = block(x)
        return x


class Thinking(nn.Sequential):
    """Two feed-forwards, as many as another block has parts (CAFormer)."""

    def __init__(self):
        super().__init__(FeedForwardPart(), FeedForwardPart())


class Stem(Block):
    """A convolution that no list holds."""


class Stemmed(nn.Module):
    """A residual convolution of no list, then half as many places, then blocks (GC ViT)."""

    def __init__(self):
        super().__init__()
        self.given, self.stem, self.fewer = nn.Conv2d(3, 5, 1), Stem(5, 5), nn.Conv2d(5, 5, 2, stride=2)
        self.blocks = nn.ModuleList(Block(5, 5) for _ in range(3))

    def forward(self, x):
        x = self.fewer(self.stem(self.given(x)))
        for block in self.blocks:
            x = block(x)
        return x


MIXED: list[list[type[nn.Module]]] = [
    [ConvolutionPart, ConvolutionPart],
    [ConvolutionPart, AttentionPart, ConvolutionPart, AttentionPart],
    [AttentionPart, ConvolutionPart],
]


class Named(nn.Module):
    """Stages that have names, and not numbers: one of blocks that only think, one of layers (AST)."""

    def __init__(self):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        self.first, self.second = (
            Stage(*(FeedForwardPart() for _ in range(2)), before=()),
            Stage(Layer(), Layer(), before=()),
        )

    def forward(self, x):
        return self.second(self.first(self.given(x)))


CASES = {
    "blocks of a part each in a stage with a name": Named(),
    "a feed-forward before the blocks of a stage": Staged(
        [Layer(), Layer()], [Layer(), Layer()], before=[FeedForwardPart()]
    ),
    "convolutions between blocks": Parted([Layer(), Layer()], [Layer(), Layer()]),
    "blocks that only think": Staged([Thinking(), Thinking()], [Layer(), Layer()]),
}


@pytest.mark.parametrize("model", CASES.values(), ids=CASES)
def test_blocks_of_all_stages_are_the_layers(model):
    (tower,) = read(model.eval(), rows()).towers

    assert tower.layers == 4


def test_blocks_of_two_classes_that_each_mix_places_are_a_layer_each():
    (tower,) = read(Staged(*([part() for part in stage] for stage in MIXED)).eval(), rows()).towers

    assert tower.layers == 8


def test_blocks_of_a_sum_each_are_layers_together_as_their_classes_come_again():
    turn: list[type[nn.Module]] = [ConvolutionPart, AttentionPart, FeedForwardPart]
    lists: list[list[type[nn.Module]]] = [[Near, Near], [Near, Near, *turn, *turn, Near], turn * 2]
    (tower,) = read(Staged(*([part() for part in one] for one in lists)).eval(), rows()).towers

    found = {number: len(group.stages) for group in tower.groups for number in group.layers}
    assert [found[number] for number in range(tower.layers)] == [1, 1, 1, 1, 3, 3, 1, 3, 3]


def test_a_residual_convolution_of_no_list_before_all_blocks_is_no_layer():
    (tower,) = read(Stemmed().eval(), torch.rand(2, 3, SIDE, SIDE)).towers

    assert (tower.layers, EntrancePart("convolution", added=True) in tower.entrance) == (3, True)


def test_a_block_of_another_list_and_the_same_class_is_a_layer():
    model = Staged([Layer(), Layer(), Layer(), Layer()])
    model.stages[0].before = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(Layer()))

    assert read(model.eval(), rows()).towers[0].layers == 5


class Twofold(nn.Module):
    """Convolutions of two lists, called in turn, with attentions of a third behind each where it `looks` (U-Nets)."""

    def __init__(self, *, looks):
        super().__init__()
        self.first, self.then = (nn.ModuleList(Near() for _ in range(2)) for _ in range(2))
        self.looking = nn.ModuleList(AttentionPart() for _ in range(2 * looks))

    def forward(self, x):
        for number, (first, then) in enumerate(zip(self.first, self.then, strict=True)):
            x = then(first(x))
            x = self.looking[number](x) if len(self.looking) else x
        return x


def test_blocks_of_two_lists_that_are_called_in_turn_by_their_numbers_are_a_layer_together():
    stages = nn.ModuleList(Twofold(looks=looks) for looks in (True, True, False))
    (tower,) = read(nn.Sequential(nn.Linear(7, WIDTH), *stages), rows()).towers

    assert [(group.layers, len(group.stages)) for group in tower.groups] == [((0, 1, 2, 3), 3), ((4, 5), 2)]


class Outside(nn.Module):
    """Blocks of a list, and one more behind them: of their class, or of another one (Inception-ResNet v2)."""

    def __init__(self, *, alike):
        super().__init__()
        self.project = nn.Linear(7, WIDTH)
        self.blocks = nn.Sequential(*(FeedForwardPart() for _ in range(5)))
        self.last = FeedForwardPart() if alike else ConvolutionPart()

    def forward(self, x):
        return self.last(self.blocks(self.project(x)))


@pytest.mark.parametrize(("alike", "layers"), [(True, 6), (False, 5)])
def test_a_block_behind_a_list_is_a_layer_if_it_is_of_the_class_of_its_blocks(alike, layers):
    assert read(Outside(alike=alike), rows()).towers[0].layers == layers
