"""Rows that a mask names, and that are set to 0 between the sublayers of each layer (Gemma 3n's sounds)."""

import pytest
import torch
from story.body.test_mistaken import (
    BATCH,
    HEADS,
    PLACES,
    WIDTH,
    AttentionPart,
    FeedForwardPart,
    Reader,
    draw,
    read,
    rows,
)
from torch import nn
from torch.nn import functional


class Clearing(Reader):
    """Layers behind whose attention rows are multiplied by what a mask says, or by numbers worked out of no mask."""

    def __init__(self, *, hides):
        super().__init__(*(part() for part in 3 * (AttentionPart, FeedForwardPart)))
        self.hides = hides

    def forward(self, x, kind=None):
        x = self.project(x)
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number % 2 == 0:
                x = x * ((~kind).to(x.dtype) if self.hides else kind.sigmoid()).unsqueeze(-1)
        return x


def clears(*, hides):
    mask = torch.arange(PLACES) >= torch.tensor([[PLACES], [PLACES - 2]])
    return Clearing(hides=hides), rows(), mask[:BATCH] if hides else torch.randn(BATCH, PLACES)


def test_rows_that_a_mask_sets_to_0_behind_a_sum_are_told_of_that_stage():
    (tower,) = read(*clears(hides=True)).towers

    assert [stage.cleared for group in tower.groups for stage in group.stages] == [True, None]
    assert [group.count for group in tower.groups] == [3]


def test_what_sets_rows_to_0_is_drawn_in_the_box_of_the_sum():
    labels = [node.label for node in draw(*clears(hides=True))]

    assert labels.count("ADD, ROWS OF A MASK SET TO 0") == 3
    assert labels.count("ADD") == 3


class Lengths(Clearing):
    """The same with a mask of ones, 0 written to where it hides, that multiplies rows in place (Speech-Transformer)."""

    def forward(self, x, kind=None):
        held = x.new_ones(x.shape[:2])
        held[1, PLACES - 2 :] = 0 if self.hides else 0.5
        x = self.project(x)
        for layer in self.layers:
            x = layer(x)
            x *= held.unsqueeze(-1)
        return x


@pytest.mark.parametrize("hides", [True, False])
def test_ones_with_0_written_to_some_are_a_mask(hides):
    towers = read(Lengths(hides=hides), rows()).towers

    cleared = [[stage.cleared for stage in group.stages] for tower in towers for group in tower.groups]
    assert (cleared == [[True, True]]) is hides
    assert any(any(stages) for stages in cleared) is hides


class Filling(nn.Module):
    """Post-norm layers behind each of whose norms rows of padding are filled with a number (FastSpeech 2)."""

    def __init__(self, value):
        super().__init__()
        self.value = value
        self.project = nn.Linear(rows().shape[-1], WIDTH)
        self.attentions = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(3))
        self.convolutions = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(6))

    def forward(self, x, kind):
        x = self.project(x)
        for number, (attend, convolve) in enumerate(zip(self.attentions, self.convolutions, strict=True)):
            seen = attend(x, x, x, key_padding_mask=kind, need_weights=False)[0]
            x = self.norms[2 * number](x + seen).masked_fill(kind.unsqueeze(-1), self.value)
            mixed = convolve(x.transpose(1, 2)).transpose(1, 2)
            x = self.norms[2 * number + 1](x + mixed).masked_fill(kind.unsqueeze(-1), self.value)
        return x


def fills(value):
    _, x, mask = clears(hides=True)
    return Filling(value), x, mask


def test_layers_whose_rows_a_mask_fills_with_0_behind_each_norm_are_one_tower():
    (tower,) = read(*fills(0)).towers

    assert [group.count for group in tower.groups] == [3]
    assert [stage.cleared for group in tower.groups for stage in group.stages] == [True, True]
    assert [node.label for node in draw(*fills(0))].count("ADD + LAYER NORM, ROWS OF A MASK SET TO 0") == 6


def test_rows_that_a_mask_fills_with_another_number_are_not_set_to_0():
    assert not any("SET TO 0" in node.label for node in draw(*fills(1.5)))


def test_numbers_of_places_that_are_no_mask_set_no_row_to_0():
    (tower,) = read(*clears(hides=False)).towers

    assert not any(stage.cleared for group in tower.groups for stage in group.stages)
    assert not any("SET TO 0" in node.label for node in draw(*clears(hides=False)))


class Blind(AttentionPart):
    """Attention behind which some rows are set to a number, or some of the numbers of each row."""

    def __init__(self, value, *, whole):
        super().__init__()
        self.value, self.whole = value, whole

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        made = self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        hidden = torch.arange(PLACES)[:, None] > 2 if self.whole else torch.arange(x.shape[-1]) > 2
        return x + made.masked_fill(hidden, self.value)


@pytest.mark.parametrize(
    ("value", "whole", "told"),
    [(0.0, True, "ROWS OF A MASK SET TO 0"), (1.5, True, "ROWS OF A MASK SET TO 1.5"), (0.0, False, "MASKED FILL")],
)
def test_rows_that_a_mask_sets_to_a_number_are_told_as_that(value, whole, told):
    model = Reader(*(part for _ in range(2) for part in (Blind(value, whole=whole), FeedForwardPart())))
    labels = {node.label for node in draw(model, rows())}

    assert {one for one in labels if "SET TO" in one or "FILL" in one} == {told}


class ChannelNorm(nn.Module):
    """A layer norm of rows that lie as channels of a signal, written out (Glow-TTS)."""

    def __init__(self, channels):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        spread = ((x - mean) ** 2).mean(1, keepdim=True)
        return (x - mean) * torch.rsqrt(spread + 1e-4) * self.gamma.view(1, -1, 1) + self.beta.view(1, -1, 1)


class ChannelsFirst(nn.Module):
    """Layers of rows that lie as channels of a signal, which a mask sets to 0 before each (Matcha-TTS)."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(WIDTH, WIDTH, 1)
        self.sides = nn.ModuleList(nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(4)) for _ in range(3))
        self.wide = nn.ModuleList(nn.Conv1d(WIDTH, 3 * WIDTH, 3, padding=1) for _ in range(3))
        self.back = nn.ModuleList(nn.Conv1d(3 * WIDTH, WIDTH, 3, padding=1) for _ in range(3))
        self.norms = nn.ModuleList(ChannelNorm(WIDTH) for _ in range(6))

    def attend(self, x, mask, sides):
        q, k, v = (side(x).unflatten(1, (HEADS, -1)).transpose(2, 3) for side in sides[:3])
        scores = (q @ k.mT / k.shape[-1] ** 0.5).masked_fill(~(mask.unsqueeze(2) & mask.unsqueeze(3)), -1e4)
        return sides[3]((scores.softmax(-1) @ v).transpose(2, 3).flatten(1, 2))

    def forward(self, x, mask):
        x, shown = self.first(x.transpose(1, 2)), mask.to(x.dtype)
        for number, sides in enumerate(self.sides):
            x = x * shown
            x = self.norms[2 * number](x + self.attend(x, mask, sides))
            mixed = self.back[number](self.wide[number](x * shown).relu() * shown) * shown
            x = self.norms[2 * number + 1](x + mixed)
        return x * shown


def test_layers_of_channels_that_a_mask_sets_to_0_are_one_tower():
    torch.manual_seed(0)
    mask = torch.arange(PLACES)[None, None] < torch.tensor([PLACES, PLACES - 2])[:BATCH, None, None]
    model, x = ChannelsFirst(), torch.randn(BATCH, PLACES, WIDTH)
    (tower,) = read(model, x, mask).towers

    assert [(group.count, len(group.stages)) for group in tower.groups] == [(3, 2)]
    assert [node.label for node in draw(model, x, mask)].count("ADD + LAYER NORM") == 3
