"""Stacks of layers that something crosses: places for queries alone, parts of rows, other towers, long ways past."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, draw, read, rows
from torch import nn
from torch.nn import functional

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.anatomy.tree import Group, Norm, Stage, Tower
from xray.story.body.reading import are_pieces

HEADS, FIRST = 3, 2


class PlacedAttention(nn.Module):
    """Attention whose queries and keys, and not its values, are told their places in every layer anew (DETR)."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, places):
        placed = x + places
        heads = (self.query(placed), self.key(placed), self.value(x))
        made = functional.scaled_dot_product_attention(
            *(one.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for one in heads)
        )
        return self.norm(x + self.out(made.transpose(-2, -3).flatten(-2)))


class Placed(nn.Module):
    """Layers that are all given the same places, worked out of the input."""

    def __init__(self, layers=3):
        super().__init__()
        self.project, self.find_places = nn.Linear(7, WIDTH), nn.Linear(7, WIDTH)
        self.look = nn.ModuleList(PlacedAttention() for _ in range(layers))
        self.think = nn.ModuleList(FeedForwardPart() for _ in range(layers))

    def forward(self, x):
        x, places = self.project(x), self.find_places(x)
        for look, think in zip(self.look, self.think, strict=True):
            x = think(look(x, places))
        return x


class Parted(nn.Module):
    """A layer whose first rows think in another way than the others (InstructBLIP)."""

    def __init__(self):
        super().__init__()
        self.look, self.think, self.other = AttentionPart(), FeedForwardPart(), FeedForwardPart(19)

    def forward(self, x):
        x = self.look(x)
        return torch.cat([self.think(x[:, :FIRST, :]), self.other(x[:, FIRST:, :])], dim=1)


class Past(nn.Module):
    """Layers, a linear layer behind them, and a way past all of it (Swin2SR)."""

    def __init__(self, *layers):
        super().__init__()
        self.layers, self.last = nn.Sequential(*layers), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.last(self.layers(x))


class Bridged(nn.Module):
    """Two stacks side by side: before each layer of one, what the other has found is worked into it (BridgeTower)."""

    def __init__(self, layers=3):
        super().__init__()
        self.project, self.other = nn.Linear(7, WIDTH), nn.Linear(7, WIDTH)
        self.before = nn.ModuleList(AttentionPart() for _ in range(layers))
        self.bridges = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(layers))
        self.layers = nn.ModuleList(nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(layers))

    def forward(self, x):
        x, other, found = self.project(x), self.other(x), []
        for layer in self.before:
            other = layer(other)
            found.append(other)
        for layer, bridge, norm, one in zip(self.layers, self.bridges, self.norms, found, strict=True):
            x = layer(norm(x + bridge(one)))
        return x


class Messaged(nn.Module):
    """A layer that sees, beside its rows, a message that its first rows have agreed upon (X-CLIP)."""

    def __init__(self):
        super().__init__()
        self.message, self.agree = nn.Linear(WIDTH, WIDTH), AttentionPart()
        self.look, self.think = AttentionPart(), FeedForwardPart()

    def forward(self, x):
        message = self.agree(self.message(x[:, :FIRST, :]))
        return self.think(self.look(torch.cat([x, message], dim=1))[:, : x.shape[1], :])


class Sounding(nn.Module):
    """Layers whose rows a few convolutions make into a signal (VITS)."""

    def __init__(self, *layers):
        super().__init__()
        self.project, self.layers, self.last = nn.Linear(7, WIDTH), nn.Sequential(*layers), nn.Linear(WIDTH, 5)
        self.begin = nn.Conv1d(5, 8, 3, padding=1)
        self.sound = nn.ModuleList(nn.Conv1d(8, 8, 3, padding=1) for _ in range(3))

    def forward(self, x):
        x = self.begin(self.last(self.layers(self.project(x))).transpose(1, 2))
        for convolve in self.sound:
            x = x + convolve(functional.leaky_relu(x))
        return x


class Pyramid(nn.Module):
    """Layers, wider layers, and a sum of what both made, each brought to one width (MaskFormer)."""

    def __init__(self):
        super().__init__()
        self.project, self.layers = nn.Linear(7, WIDTH), nn.ModuleList(self.make() for _ in range(5))
        self.turn, self.lateral, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def make(self):
        return nn.Sequential(AttentionPart(), FeedForwardPart())

    def forward(self, x):
        first = self.project(x)
        for layer in self.layers[:2]:
            first = layer(first)
        second = functional.gelu(self.turn(first))
        for layer in self.layers[2:]:
            second = layer(second)
        return self.lateral(first) + self.last(second)


class Uneven(nn.Module):
    """A layer that thinks before and behind its attention, with a second attention or without."""

    def __init__(self, *, twice):
        super().__init__()
        parts = [FeedForwardPart(), AttentionPart(), *([AttentionPart()] if twice else []), FeedForwardPart()]
        self.parts = nn.Sequential(*parts)

    def forward(self, x):
        return self.parts(x)


def test_places_that_queries_and_keys_are_given_are_no_residual_sum():
    (tower,) = read(Placed(), rows()).towers

    assert tower.layers == 3
    assert tower.branches[0].part == "attention"


def test_rows_that_think_apart_do_not_break_a_stack():
    found = read(Reader(Parted(), Parted(), Parted()), rows())

    (tower,) = found.towers
    assert (tower.layers, [one.d_ff for one in tower.branches if isinstance(one, FeedForward)]) == (3, [17])
    assert [one.d_ff for group in tower.groups for stage in group.stages for one in stage.others or ()] == [19]
    assert found.untold == ()


def test_a_way_past_many_layers_does_not_make_them_one():
    layers = [one for _ in range(3) for one in (AttentionPart(), FeedForwardPart())]
    (tower,) = read(Reader(Past(*layers)), rows()).towers

    assert tower.layers == 3


def test_what_another_stack_found_does_not_end_the_one_that_it_is_worked_into():
    towers = read(Bridged(), rows()).towers

    assert [one.layers for one in towers] == [3, 3]


def test_a_message_for_one_layer_is_no_stack_of_its_own():
    (tower,) = read(Reader(Messaged(), Messaged(), Messaged()), rows()).towers

    assert tower.layers == 3
    assert [one.part for one in tower.entrance] == ["projection"]


def test_a_message_that_rows_agree_upon_is_said_to_be_worked_out_by_attention():
    nodes = draw(Reader(Messaged(), Messaged(), Messaged()), rows())

    assert {node.told for node in nodes if node.key == "added"} == {
        (f"worked out by attention: {FIRST} look at each other",)
    }


class MessagedByPart(Messaged):
    """The same, with one message made of the first row of each part of a sequence."""

    def forward(self, x):
        message = self.agree(self.message(x[:, 0, :]).view(1, len(x), WIDTH)).view(len(x), 1, WIDTH)
        return self.think(self.look(torch.cat([x, message], dim=1))[:, : x.shape[1], :])


def test_a_message_of_the_first_row_of_each_sequence_says_how_many_look_at_each_other():
    nodes = draw(Reader(MessagedByPart(), MessagedByPart(), MessagedByPart()), rows())

    told = "made of the first row of each sequence", f"worked out by attention: {len(rows())} look at each other"
    assert {node.told for node in nodes if node.key == "added"} == {told}


def test_a_few_convolutions_behind_attention_are_named_as_not_drawn():
    found = read(Sounding(*(one for _ in range(3) for one in (AttentionPart(), FeedForwardPart()))), rows())

    assert [one.layers for one in found.towers] == [3]
    assert found.head is None
    assert {"last", "begin", "sound.0", "sound.1", "sound.2"} <= {one.path for one in found.untold}


def test_a_sum_of_what_two_stages_made_hides_neither():
    assert sum(tower.layers for tower in read(Pyramid(), rows()).towers) == 5


def test_layers_without_a_common_pattern_are_told_apart_by_their_blocks():
    layers = [Uneven(twice=place in (1, 2)) for place in range(5)]
    (tower,) = read(Reader(*layers), rows()).towers

    assert tower.layers == 5


@pytest.mark.parametrize(("count", "beside", "told"), [(4, "text", True), (3, "text", False), (4, None, False)])
def test_pieces_of_a_stream_that_has_no_one_way_are_no_towers(count, beside, told):
    """Inkling 2 asks anew, layer by layer, which of the pieces before to read."""
    attend = Attention("self", 2, 2, 4, 4, beside=beside)
    layers = Group((0, 1), (Stage((attend,), False, Norm("rms", "before")),), 8)
    pieces = [Tower(f"text {number}", "ids", True, 8, 31, (), (layers,), None) for number in range(count)]

    assert are_pieces(pieces) is told


class Windowed(nn.Module):
    """Layers over windows that are sequences of their own, between layers that look at all of them (LW-DETR)."""

    def __init__(self, windows=2):
        super().__init__()
        self.project, self.windows = nn.Linear(7, WIDTH), windows
        self.look = nn.ModuleList(AttentionPart() for _ in range(4))
        self.think = nn.ModuleList(FeedForwardPart() for _ in range(4))

    def forward(self, x):
        x = self.project(x)
        for number, (look, think) in enumerate(zip(self.look, self.think, strict=True)):
            rows = look.norm(x)
            rows = rows if number % 2 else rows.reshape(-1, self.windows * rows.shape[1], WIDTH)
            heads = [one.transpose(1, 2) for one in look.qkv(rows).unflatten(-1, (3, HEADS, -1)).unbind(2)]
            made = look.out(functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
            x = think(x + made.reshape(x.shape))
        return x


def test_windows_that_are_sequences_of_their_own_are_told_beside_whole_ones():
    (tower,) = read(Windowed(), torch.randn(4, 5, 7)).towers

    assert {one.layers: one.stages[0].branches[0].window for one in tower.groups} == {(0, 2): None, (1, 3): 5}


class Convolved(nn.Module):
    """A convolution of a map, added to it."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(1, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return x + self.conv(functional.silu(self.norm(x)))


class OverMap(AttentionPart):
    """Attention over the places of a map."""

    def forward(self, x):
        return super().forward(x.flatten(2).mT).mT.reshape(x.shape)


class Smaller(nn.Module):
    """One block for all stages of an encoder of maps, each half as large, the last with attention (Emu3)."""

    def __init__(self, stages):
        super().__init__()
        self.convolve = nn.ModuleList(nn.Sequential(Convolved(), Convolved()) for _ in range(stages))
        self.halve = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, 2, 1) for _ in range(stages - 1))
        self.look = OverMap()

    def forward(self, x):
        for convolve, halve in zip(self.convolve, self.halve, strict=False):
            x = halve(convolve(x))
        return self.look(self.convolve[-1](x))


def test_one_block_for_stages_of_several_sizes_is_no_layer():
    ends = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Sequential(Convolved(), OverMap(), Convolved())
    (tower,) = read(nn.Sequential(ends[0], Smaller(4), ends[1]), torch.randn(1, 3, 24, 24)).towers

    assert tower.layers == 10
    assert [one.before for one in tower.bridges] == [2, 4, 6]


class Turning(nn.Module):
    """A state of two parts that each place changes: one of these is a sum of its own each time (xLSTM)."""

    def __init__(self):
        super().__init__()
        self.norm, self.rows, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        state, found = x.new_zeros(2, len(x), WIDTH), []
        for one in self.rows(self.norm(x)).unbind(1):
            rows, most = state.unbind(0)
            state = torch.stack((rows + one, most + functional.logsigmoid(self.gate(rows) + one)))
            found.append(state[0] * state[1])
        return x + torch.stack(found, 1)


def test_a_layer_with_a_sum_for_each_place_is_one_of_the_stack():
    layers = (AttentionPart(), FeedForwardPart(), Turning(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
    (tower,) = read(nn.Sequential(*layers), torch.rand(2, 31, WIDTH)).towers

    assert sum(group.count * len(group.stages) for group in tower.groups) == len(layers)


class Twice(nn.Module):
    """Two feed-forwards, each added to what came in: a layer of neither of which mixes places (DiGress)."""

    def __init__(self):
        super().__init__()
        self.one, self.two = (nn.Sequential(nn.Linear(12, 17), nn.ReLU(), nn.Linear(17, 12)) for _ in range(2))
        self.first, self.last = nn.LayerNorm(12), nn.LayerNorm(12)

    def forward(self, x):
        x = self.first(x + self.one(x))
        return self.last(x + self.two(x))


def test_blocks_that_add_two_feed_forwards_are_a_layer_each():
    model = nn.Sequential(nn.Linear(7, 12), *(Twice() for _ in range(4)))

    (tower,) = read(model, torch.rand(2, 5, 7)).towers
    assert [group.layers for group in tower.groups] == [(0, 1, 2, 3)]
