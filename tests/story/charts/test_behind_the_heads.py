"""What is done to what the heads found: learned numbers, and what is taken off or led past."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from story.charts.scaled_attentions import read_panel
from torch import nn
from torch.nn import functional

import xray
from xray.story.sheet.columns import read_columns


class Layered(nn.Module):
    """What the heads found, through a linear layer, times learned numbers for each channel (DINOv2)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        found = (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return x + self.end(found.transpose(1, 2).flatten(2))

    def end(self, found):
        return self.out(found) * self.scale


def test_learned_numbers_behind_the_heads_are_told_with_their_count():
    _, _, nodes = read_panel(Layered)

    assert {node.label: node.extra for node in nodes}["× LEARNED NUMBERS"] == f"{WIDTH} parameters"


class CountedFromTheFront(Layered):
    """The axis of the softmax counted from the front (XLNet)."""

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return x + self.end(((query @ key.mT).softmax(3) @ value).transpose(1, 2).flatten(2))


def test_the_axis_of_a_softmax_is_counted_from_behind():
    _, _, nodes = read_panel(CountedFromTheFront)

    assert "SOFTMAX dim −1" in [node.label for node in nodes]


class Shifted(Layered):
    """The same, shifted by other learned numbers (MobileBERT)."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(WIDTH))

    def end(self, found):
        return self.out(found) * self.scale + self.shift


def test_learned_numbers_that_shift_what_the_heads_found_are_told_with_the_others():
    _, _, nodes = read_panel(Shifted)

    assert {node.label: node.extra for node in nodes}["SCALE AND SHIFT"] == f"{2 * WIDTH} parameters"


class TakenFrom(Layered):
    """What lies along another row is taken from what the heads found (NeoMME)."""

    def end(self, found):
        row = torch.tanh(self.scale)
        return self.out(found - (found * row).sum(-1, keepdim=True) * row)


def test_what_something_is_taken_from_is_led_to_the_difference():
    trace = xray.trace(nn.Sequential(TakenFrom(), FeedForwardPart(), TakenFrom()).eval(), torch.ones(5, 2, WIDTH))
    chart = read_columns(trace)[0].frames[0].panels[0].chart

    (taken,) = (node.key for node in chart.nodes if node.label == "SUBTRACTED")
    assert "concat" in {edge.source for edge in chart.edges if edge.target == taken}


class Exclusive(nn.Module):
    """What lies along its own value is taken from what the heads found, and a gate of its own decides (NeoMME)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.gate, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.share = nn.Parameter(torch.ones(HEADS))

    def forward(self, x):
        query, key, value = (layer(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for layer in self.rows)
        found = ((query @ key.transpose(-1, -2)).softmax(-1) @ value).transpose(1, 2)
        along = nn.functional.normalize(value.transpose(1, 2), dim=-1)
        share = self.share.tanh().view(1, 1, -1, 1) * (found * along).sum(-1, keepdim=True)
        found = (found - share * along).flatten(2)
        return x + self.out(found * self.gate(x).sigmoid())


def test_a_gate_behind_the_heads_and_what_learned_numbers_multiply_are_told():
    trace = xray.trace(nn.Sequential(Exclusive(), FeedForwardPart(), Exclusive()).eval(), torch.ones(5, 2, WIDTH))
    chart = read_columns(trace)[0].frames[0].panels[0].chart
    extra = {node.label: node.extra for node in chart.nodes}

    assert extra["× SIGMOID OF GATE"] == f"{WIDTH * WIDTH + WIDTH} parameters"
    assert extra["× TANH OF LEARNED NUMBERS, MULTIPLIED"] == f"{HEADS} parameters"


class MixedPlaces(Layered):
    """What the heads give is added to what a convolution over the last places makes of it (Inkling)."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 4, padding=3, groups=WIDTH, bias=False)

    def end(self, found):
        given = self.out(found)
        return self.mix(given.mT)[..., : given.shape[1]].mT + given


def test_what_goes_past_a_convolution_behind_the_heads_is_led_to_the_sum_alone_and_its_numbers_are_counted():
    trace = xray.trace(nn.Sequential(MixedPlaces(), FeedForwardPart(), MixedPlaces()).eval(), torch.ones(5, 7, WIDTH))
    chart = read_columns(trace)[0].frames[0].panels[0].chart

    keys = {node.label: node.key for node in chart.nodes}
    led = [edge.source for edge in chart.edges if edge.target == keys["ADDED UP"]]
    assert sorted(led) == sorted([keys["LINEAR O"], keys["CUT ANEW"]])
    assert {node.label: node.extra for node in chart.nodes}["CONVOLUTION OF THE LAST 4 BY CHANNEL"] == (
        f"{4 * WIDTH} parameters"
    )


class Relaxed(Layered):
    """Scores from which the highest of their row is taken while they are divided, which softmax undoes (LayoutLMv3)."""

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (query / query.shape[-1] ** 0.5) @ key.transpose(-1, -2)
        scores = scores + torch.arange(x.shape[1]) * self.scale[:HEADS, None, None]
        small = scores / 32
        found = ((small - small.amax(-1, keepdim=True)) * 32).softmax(-1) @ value
        return x + self.end(found.transpose(1, 2).flatten(2))


def test_the_highest_of_scores_that_is_taken_from_them_is_told_with_their_factor():
    _, _, nodes = read_panel(Relaxed)

    assert "SCORES − THEIR HIGHEST, · 32" in {node.label for node in nodes}


class Kept(nn.Module):
    """Values, or what keys and values are made of, are multiplied by a number and laid behind what a cache holds."""

    def __init__(self, *, shares):
        super().__init__()
        self.shares, self.norm, self.waist = shares, nn.RMSNorm(7), nn.Linear(WIDTH, 7)
        self.query, self.out, self.both = (nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(7, 2 * WIDTH))

    def forward(self, x):
        rows = self.norm(self.waist(x))
        rows = self.keep(rows.unsqueeze(1)).squeeze(1) if self.shares else rows
        parts = self.query(x), *self.both(rows).chunk(2, -1)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        value = value if self.shares else self.keep(value)
        found = functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(found.transpose(1, 2).flatten(2))

    def keep(self, rows):
        return torch.cat((torch.empty(0), rows * 0.75), -2)


@pytest.mark.parametrize(("shares", "told"), [(False, "V · 0.75"), (True, "× 0.75")])
def test_by_which_number_values_are_multiplied_that_a_cache_keeps_is_told(shares, told):
    _, _, nodes = read_panel(lambda: Kept(shares=shares))

    labels = [node.label for node in nodes]
    assert told in labels
    assert not [one for one in labels if one.startswith("SCALE")]


class Remembers(Layered):
    """A gated unit mixes what the heads give with what came in, by convolutions (FlowFormer)."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.ways = nn.ModuleList(nn.Conv1d(2 * WIDTH, WIDTH, 3, padding=1) for _ in range(2))

    def end(self, found):
        found = self.out(found).mT
        before = self.first(found.mT).tanh().mT
        share = self.ways[0](torch.cat((before, found), 1)).sigmoid()
        return ((1 - share) * before + share * self.ways[1](torch.cat((share * before, found), 1)).tanh()).mT


def test_layers_behind_the_heads_are_told_and_counted_in_the_box_that_holds_them():
    _, _, nodes = read_panel(Remembers)
    held = [node for node in nodes if sum(step.op == "conv1d" for step in node.steps) == 2]

    assert [node.label for node in held] == ["1 LINEAR LAYER, 2 CONVOLUTIONS"]
    assert held[0].extra == f"{WIDTH * WIDTH + WIDTH + 2 * (6 * WIDTH * WIDTH + WIDTH):,} parameters"


class DividedBy(Layered):
    """What the heads give is divided by learned numbers."""

    def end(self, found):
        return self.out(found) / self.scale


def test_what_learned_numbers_divide_is_not_multiplied_by_them():
    _, _, nodes = read_panel(DividedBy)
    told = {node.label: node.extra for node in nodes}

    assert told["÷ LEARNED NUMBERS"] == f"{WIDTH} parameters"
    assert "× LEARNED NUMBERS" not in told
