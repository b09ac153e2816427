"""Pairs that lie in one batch: attention of one half to the other is no self-attention, and has no second tower."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, AttentionPart, FeedForwardPart, Reader, read
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.attentions import ANOTHER_ROW, Attention
from xray.story.sentences.of_parts import BOTH_STACKED, CHANGED_BEFORE
from xray.story.sheet.columns import read_columns

WIDTH, HEADS = 12, 3


class Crossing(nn.Module):
    """Attention whose keys and values may be made of other rows than its queries."""

    def __init__(self):
        super().__init__()
        self.norm, self.query, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def attend(self, x, other):
        heads = [self.query(x), self.key(other), self.value(other)]
        made = functional.scaled_dot_product_attention(
            *(one.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for one in heads)
        )
        return self.out(made.transpose(-2, -3).flatten(-2))


class Swapped(Crossing):
    """Every row of the batch looks at the one beside it (LightGlue)."""

    def forward(self, x):
        x = self.norm(x)
        other = x.view(-1, 2, PLACES, WIDTH).flip(1).reshape(x.shape)
        return x + self.attend(x, other)


class Picked(Crossing):
    """The first row of each pair looks at the second one, then this at that (EfficientLoFTR)."""

    def forward(self, x):
        pairs = x.view(-1, 2, PLACES, WIDTH)
        first, second = pairs[:, 0], pairs[:, 1]
        first = first + self.attend(first, second)
        second = second + self.attend(second, first)
        return torch.stack([first, second], dim=1).view(x.shape)


class Rolled(Crossing):
    """Every place looks at its own row, of which the places were rolled."""

    def forward(self, x):
        return x + self.attend(x, x.roll(1, dims=1))


@pytest.mark.parametrize("layer", [Swapped, Picked])
def test_the_other_half_of_a_pair_is_another_row_of_the_batch(layer):
    model = Reader(AttentionPart(), FeedForwardPart(), layer(), FeedForwardPart())
    found = read(model, torch.randn(2 * BATCH, PLACES, 7))

    (tower,) = found.towers
    assert [one.source for one in tower.branches if isinstance(one, Attention)] == ["self", ANOTHER_ROW]
    assert (tower.name, tower.causal, found.links) == ("stack", False, ())


def test_places_that_were_rolled_are_of_the_same_row():
    found = read(Reader(Rolled(), FeedForwardPart()), torch.randn(2 * BATCH, PLACES, 7))

    assert [one.source for one in found.towers[0].branches if isinstance(one, Attention)] == ["self"]


class InTurn(Crossing):
    """The first row of each pair looks at the second one, then this at that, be it as it was, or by other weights."""

    def __init__(self, *, changed=True, shared=True):
        super().__init__()
        self.changed, self.other = changed, None if shared else Crossing()

    def forward(self, x):
        pairs = x.view(-1, 2, PLACES, WIDTH)
        first, second = pairs[:, 0], pairs[:, 1]
        new = first + self.attend(first, second)
        second = second + (self.other or self).attend(second, new if self.changed else first)
        return torch.stack([new, second], dim=1).view(x.shape)


def chart_turns(**ways):
    model = Reader(AttentionPart(), FeedForwardPart(), InTurn(**ways), FeedForwardPart())
    (column,) = read_columns(xray.trace(model.eval(), torch.randn(2 * BATCH, PLACES, 7)))
    panels = [panel for frame in column.frames for panel in frame.panels]
    return next(
        one.chart
        for one in panels
        if any(getattr(part, "source", "") == ANOTHER_ROW for part in one.staging.stage.branches)
    )


def test_keys_of_the_half_of_a_pair_that_was_changed_before_are_not_led_from_the_stream():
    chart = chart_turns()

    assert [node.label for node in chart.nodes if CHANGED_BEFORE in node.told] == ["LINEAR K", "LINEAR V"]
    assert [chart.node(key).label for key in chart.feet] == ["LINEAR Q"]


def test_that_both_halves_of_a_pair_take_their_turn_is_told_where_weights_are_the_same():
    assert [BOTH_STACKED in chart_turns(shared=one).node("add").told for one in (True, False)] == [True, False]


class Halves(nn.Module):
    """A layer that is given pairs, lays their halves out as rows of one batch, and stacks them again."""

    def __init__(self):
        super().__init__()
        self.look, self.think, self.turn = AttentionPart(), FeedForwardPart(), InTurn()
        self.after = FeedForwardPart()

    def forward(self, pairs):
        x = self.think(self.look(pairs.flatten(0, 1))).unflatten(0, (-1, 2))
        first, second = x[:, 0], x[:, 1]
        first = first + self.turn.attend(first, second)
        second = second + self.turn.attend(second, first)
        return torch.stack([first, second], dim=1)


class Pairs(nn.Module):
    """Layers of pairs, be they blocks of their own."""

    def __init__(self):
        super().__init__()
        self.given, self.layers = nn.Linear(7, WIDTH), nn.ModuleList(Halves() for _ in range(2))

    def forward(self, x):
        x = self.given(x).unflatten(0, (-1, 2))
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_layer_of_pairs_is_entered_by_pairs():
    (column,) = read_columns(xray.trace(Pairs().eval(), torch.randn(2 * BATCH, PLACES, 7)))

    panel = column.frames[0].panels[0]
    assert panel.block is not None
    assert panel.block.inputs[0].shape == (BATCH, 2, PLACES, WIDTH)
