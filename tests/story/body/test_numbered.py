"""What is told of the blocks that a model numbers where some of them add nothing, and of sums between two of them."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, read, rows
from torch import nn

import xray
from xray.story.anatomy.branches import Experts
from xray.story.sentences.of_models import describe_blocks

SIDE = 8


class Block(nn.Module):
    """A convolution that makes maps wider, or one that is added to what came in (EfficientNet)."""

    def __init__(self, before, after):
        super().__init__()
        self.mix, self.norm, self.is_wider = (
            nn.Conv2d(before, after, 3, padding=1),
            nn.BatchNorm2d(after),
            before < after,
        )

    def forward(self, x):
        made = torch.relu(self.norm(self.mix(x)))
        return made if self.is_wider else x + made


class Pyramid(nn.Module):
    """Blocks beside each other, of which the first and the fourth add nothing, and one behind these perhaps."""

    def __init__(self, *behind):
        super().__init__()
        widths = [(3, 5), (5, 5), (5, 5), (5, 7), (7, 7), (7, 7), (7, 7), *behind]
        self.blocks = nn.ModuleList(Block(*one) for one in widths)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Staged(nn.Module):
    """Stages, each of several blocks, of which the first of each adds nothing (HGNet)."""

    def __init__(self):
        super().__init__()
        widths = [[(3, 5)], [(5, 7), (7, 7), (7, 7)], [(7, 11)]]
        self.stages = nn.ModuleList(nn.Sequential(*(Block(*one) for one in stage)) for stage in widths)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


class Adapted(nn.Module):
    """Two stacks of layers, and between them a sum of what two heads make of the stream (FastSpeech 2)."""

    def __init__(self, *, own, layers=1):
        super().__init__()
        self.first, self.then = (nn.ModuleList(Layer() for _ in range(layers)) for _ in range(2))
        self.pitch, self.energy = nn.Linear(WIDTH, 1), nn.Linear(1, WIDTH)
        self.between = Layer() if own else None
        self.given = nn.Linear(7, WIDTH)

    def forward(self, x):
        x = self.given(x)
        for layer in self.first:
            x = layer(x)
        x = x + self.energy(self.pitch(x)) if self.between is None else self.between(x)
        for layer in self.then:
            x = layer(x)
        return x


class Closed(nn.Module):
    """Layers in a list, and one behind them that is in none, or in another one (SAM's last attention)."""

    def __init__(self, *, listed, times=1):
        super().__init__()
        self.given, self.layers = nn.Linear(7, WIDTH), nn.ModuleList(Layer() for _ in range(2))
        self.times = times
        self.last: nn.Module = nn.ModuleList([Layer()]) if listed else Layer()

    def forward(self, x):
        x = self.given(x)
        for layer in (
            *[*self.layers] * self.times,
            *(self.last if isinstance(self.last, nn.ModuleList) else [self.last]),
        ):
            x = layer(x)
        return x


class Layer(nn.Sequential):
    """An attention and a feed-forward."""

    def __init__(self):
        super().__init__(AttentionPart(), FeedForwardPart())


def test_blocks_that_add_nothing_are_counted_beside_the_layers():
    anatomy = read(Pyramid(), torch.randn(2, 3, SIDE, SIDE))

    (tower,) = anatomy.towers
    assert (tower.layers, tower.idle_blocks, tower.blocks) == (5, 2, 7)
    assert describe_blocks(anatomy) == "2 of 7 blocks add nothing: they stand before and between the layers."


def test_nothing_is_told_of_blocks_of_stages_and_stages_are_none():
    anatomy = read(Staged(), torch.randn(2, 3, SIDE, SIDE))

    (tower,) = anatomy.towers
    assert (tower.layers, tower.idle_blocks, tower.blocks, describe_blocks(anatomy)) == (2, 0, None, "")


def test_a_block_behind_the_layers_that_adds_nothing_is_counted_too():
    anatomy = read(Pyramid((7, 11)), torch.randn(2, 3, SIDE, SIDE))

    (tower,) = anatomy.towers
    assert (tower.layers, tower.idle_blocks, tower.blocks) == (5, 3, 8)
    assert describe_blocks(anatomy).endswith("they stand before, between and behind the layers.")


def test_a_sum_between_many_blocks_counts_as_no_layer():
    anatomy = xray.anatomy(xray.trace(Adapted(own=False, layers=2).eval(), rows()))

    (tower,) = anatomy.towers
    assert (tower.layers, describe_blocks(anatomy)) == (4, "")


@pytest.mark.parametrize("listed", [True, False])
def test_a_layer_outside_the_list_of_the_others_is_told(listed):
    anatomy = read(Closed(listed=listed), rows())

    assert describe_blocks(anatomy) == "2 of 3 layers are blocks of one list; layer 3 is none of these."


def test_a_last_attention_outside_the_list_of_the_layers_is_told_to_have_no_feed_forward():
    model = Closed(listed=False)
    model.last = AttentionPart()

    told = describe_blocks(read(model, rows()))
    assert told == "2 of 3 layers are blocks of one list; layer 3 is none of these, and has no feed-forward."


class Handing(nn.Module):
    """Layers that hand on what they were given beside what they made: the next one adds them (Mamba)."""

    def __init__(self, part, *, listed):
        super().__init__()
        blocks = [nn.ModuleDict({"norm": nn.LayerNorm(WIDTH), "part": part()}) for _ in range(4)]
        self.first, self.layers = nn.Linear(7, WIDTH), nn.ModuleList(map(Late, blocks[: 4 if listed else 3]))
        self.last = None if listed else Late(blocks[3])

    def forward(self, x):
        x, before = self.first(x), None
        for layer in (*self.layers, self.last):
            x, before = (x, before) if layer is None else layer(x, before)
        return x + before


class Late(nn.Module):
    """One of these layers."""

    def __init__(self, block):
        super().__init__()
        self.norm, self.part = block["norm"], block["part"]

    def forward(self, x, before):
        before = x if before is None else before + x
        return self.part(self.norm(before)), before


@pytest.mark.parametrize("part", [AttentionPart, FeedForwardPart])
def test_a_layer_of_which_the_next_block_works_the_sum_out_is_in_the_list(part):
    told = {one: describe_blocks(read(Handing(part, listed=one), rows())) for one in (True, False)}

    assert told == {True: "", False: "3 of 4 layers are blocks of one list; layer 4 is none of these."}


class Grouping(nn.Module):
    """Two stages, each of a list of layers and one more behind these (GroupViT)."""

    def __init__(self):
        super().__init__()
        self.given, self.stages = nn.Linear(7, WIDTH), nn.ModuleList(OneStage() for _ in range(2))

    def forward(self, x):
        x = self.given(x)
        for stage in self.stages:
            x = stage(x)
        return x


class OneStage(nn.Module):
    """Two layers in a list, and one beside it."""

    def __init__(self):
        super().__init__()
        self.layers, self.assign = nn.ModuleList(Layer() for _ in range(2)), Layer()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.assign(x)


class Following(Grouping):
    """The same behind which layers of another list follow (EfficientLoFTR)."""

    def __init__(self):
        super().__init__()
        self.following = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x):
        x = super().forward(x)
        for layer in self.following:
            x = layer(x)
        return x


def test_layers_of_a_list_beside_those_of_all_stages_are_no_layers_outside_a_list():
    (tower,) = read(Following(), rows()).towers

    assert (tower.layers, tower.unlisted) == (9, ())


def test_layers_of_a_shorter_list_are_no_layers_outside_a_list():
    model = nn.Sequential(nn.Linear(7, WIDTH), Stage(3), Stage(2))

    assert describe_blocks(read(model, rows())) == ""


def test_layers_of_two_lists_that_are_as_long_are_told_as_layers_alone():
    (tower,) = read(Adapted(own=True, layers=2), rows()).towers

    assert (tower.layers, tower.unlisted) == (5, ())


def test_layers_that_run_again_are_told_as_no_blocks_of_a_list():
    assert describe_blocks(read(Closed(listed=True, times=2), rows())) == ""


class Stage(nn.Module):
    """So many layers in a list."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Wrapped(nn.Module):
    """A sum around a part."""

    def __init__(self, part):
        super().__init__()
        self.part, self.last = part, nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.last(self.part(x))


def test_layers_of_one_sublayer_and_others_of_two_are_counted_as_layers():
    layers = [nn.Sequential(Wrapped(AttentionPart()), Wrapped(FeedForwardPart())) for _ in range(2)]
    model = nn.Sequential(nn.Linear(7, WIDTH), nn.Sequential(*layers, Wrapped(AttentionPart())))

    (tower,) = read(model, rows()).towers

    assert tower.layers == 3


class Think(nn.Module):
    """What an expert does, or the only one of a layer that has no router."""

    def __init__(self):
        super().__init__()
        self.up, self.back = nn.Linear(WIDTH, 9), nn.Linear(9, WIDTH)

    def forward(self, x):
        return self.back(torch.relu(self.up(x)))


class Chosen(nn.Module):
    """One expert that all places go through, or four of which each goes through two (Jamba)."""

    def __init__(self, count):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, count) if count > 1 else None
        self.experts = nn.ModuleList(Think() for _ in range(count))

    def forward(self, x):
        if self.router is None:
            return x + self.experts[0](self.norm(x))
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        made = torch.zeros_like(given)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(chosen == number)
            made.index_add_(0, row, expert(given[row]) * weights[row, place, None])
        return x + made.view(x.shape)


def test_experts_are_no_blocks_that_layers_hold_several_of():
    layers = [nn.Sequential(AttentionPart(), Chosen(count)) for count in (1, 4, 1, 4)]

    anatomy = read(nn.Sequential(nn.Linear(7, WIDTH), nn.Sequential(*layers)), rows())

    assert any(isinstance(one, Experts) for one in anatomy.towers[0].branches)
    assert anatomy.towers[0].layers == 4


class Pairs(nn.Module):
    """A list of pairs of sublayers that the model calls one by one; the first begins otherwise (BIT)."""

    def __init__(self):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        parts = [(FeedForwardPart(), AttentionPart()), *((AttentionPart(), FeedForwardPart()) for _ in range(3))]
        self.layers = nn.ModuleList(map(nn.ModuleList, parts))

    def forward(self, x):
        x = self.given(x)
        for layer in self.layers:
            first, then = list(layer.children())
            x = then(first(x))
        return x


def test_pairs_of_sublayers_in_a_list_are_a_layer_each():
    (tower,) = read(Pairs(), rows()).towers

    parts = {group.layers: [stage.branches[0].part for stage in group.stages] for group in tower.groups}
    assert parts == {(0,): ["feed_forward", "attention"], (1, 2, 3): ["attention", "feed_forward"]}


class Near(nn.Module):
    """Each place with what stands next to it."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return x + self.mix(self.norm(x).mT).mT


class InTurn(nn.Module):
    """Blocks of two lists, called in turn, of which one holds two sums that are alike (UViT)."""

    def __init__(self):
        super().__init__()
        self.near = nn.ModuleList(Near() for _ in range(3))
        self.looks = nn.ModuleList(nn.Sequential(AttentionPart(), AttentionPart()) for _ in range(3))

    def forward(self, x):
        for near, look in zip(self.near, self.looks, strict=True):
            x = look(near(x))
        return x


def test_a_pattern_that_goes_through_blocks_of_two_lists_is_one_layer():
    (tower,) = read(nn.Sequential(nn.Linear(7, WIDTH), InTurn()), rows()).towers
    assert [len(group.layers) for group in tower.groups] == [3]
