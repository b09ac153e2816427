"""Layers on both sides of something that stands once between them: alike, and no one stack (a codec of sound)."""

import pytest
import torch
from handwritten import Attention
from handwritten import Layer as Reading
from printed import words_of
from story.body.test_kept_waist import WIDTH as MASKED_WIDTH
from story.body.test_kept_waist import Layer
from story.body.test_masks_apart import Masked
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Codec(nn.Module):
    """Layers, a convolution that makes two places one, its way back, and layers again."""

    def __init__(self, pairs=2):
        super().__init__()
        self.words = nn.Embedding(19, WIDTH)
        self.before, self.behind = (
            nn.ModuleList(nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(pairs)) for _ in range(2)
        )
        self.down, self.up = nn.Conv1d(WIDTH, WIDTH, 2, 2), nn.ConvTranspose1d(WIDTH, WIDTH, 2, 2)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.before:
            x = layer(x)
        x = self.up(self.down(x.transpose(1, 2))).transpose(1, 2)
        for layer in self.behind:
            x = layer(x)
        return x


def test_layers_before_and_behind_a_break_are_told_apart():
    (tower,) = anatomy(xray.trace(Codec().eval(), torch.zeros(2, 6, dtype=torch.long))).towers

    assert [bridge.before for bridge in tower.bridges] == [2]
    assert [group.layers for group in tower.groups] == [(0, 1), (2, 3)]


class TwoWaists(Codec):
    """A convolution that leaves the stream as long as it is, between layers twice (the latent of DC-AE)."""

    def __init__(self):
        super().__init__()
        self.again = nn.ModuleList(nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(2))

    def forward(self, ids):
        x = self.words(ids)
        for layers in (self.before, self.behind, self.again):
            for layer in layers:
                x = layer(x)
            x = self.up(self.down(x.transpose(1, 2))).transpose(1, 2) if layers is not self.again else x
        return x


def test_layers_are_told_apart_wherever_something_stands_between_them():
    (tower,) = anatomy(xray.trace(TwoWaists().eval(), torch.zeros(2, 6, dtype=torch.long))).towers

    assert [group.layers for group in tower.groups] == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("wide", "groups"),
    [
        ((17, 17, 13, 13, 13, 17, 17), [(0, 1), (2, 3, 4), (5, 6)]),
        ((17, 13, 17, 13), [(0, 2), (1, 3)]),
        ((17, 17, 13, 17), [(0, 1, 3), (2,)]),
    ],
)
def test_layers_before_and_behind_others_are_told_apart_unless_they_are_a_pattern(wide, groups):
    layers = (nn.Sequential(AttentionPart(), FeedForwardPart(one)) for one in wide)
    model = nn.Sequential(nn.Embedding(19, WIDTH), *layers).eval()
    (tower,) = anatomy(xray.trace(model, torch.zeros(2, 6, dtype=torch.long))).towers

    assert [group.layers for group in tower.groups] == groups


class Waist(Codec):
    """Layers on all places, layers on every second, and layers on all again, which read the first ones beside these."""

    def __init__(self):
        super().__init__(1)
        self.within = nn.Sequential(AttentionPart(), FeedForwardPart())
        self.back = nn.Conv1d(2 * WIDTH, WIDTH, 1)

    def forward(self, ids):
        before = self.before[0](self.words(ids))
        few = self.within(self.down(before.transpose(1, 2)).transpose(1, 2))
        head, tail = (few[:, part].repeat_interleave(2, dim=1) for part in (slice(1), slice(1, None)))
        beside = torch.cat([before, torch.cat([head, tail], dim=-2)], dim=-1)
        return self.behind[0](self.back(beside.transpose(1, 2)).transpose(1, 2))


def test_layers_on_both_sides_of_shorter_ones_are_told_apart_and_what_stands_between_is_drawn():
    trace = xray.trace(Waist().eval(), torch.zeros(2, 6, dtype=torch.long))

    assert [group.layers for group in anatomy(trace).towers[0].groups] == [(0,), (1,), (2,)]
    told = words_of(compose_poster(trace, text_width))
    assert "END TO END" in told
    assert "WITH WHAT LAYER 1 GAVE BESIDE IT" in told


class PushedDown(Masked):
    """A single head whose scores have a great number taken from them where a number says so."""

    def forward(self, x):
        query, key, value = (made(x) for made in (self.query, self.key, self.value))
        hidden = (1.0 - self.mask.to(x)[None].float().repeat(len(x), 1, 1)) * -10_000.0
        return self.out(torch.softmax(query @ key.transpose(-1, -2) + hidden, dim=-1) @ value)


def test_what_takes_a_great_number_from_scores_is_a_mask_and_no_bias():
    model = nn.Sequential(nn.Embedding(11, MASKED_WIDTH), *(Layer(PushedDown(torch.ones(5, 5))) for _ in range(2)))

    told = words_of(compose_poster(xray.trace(model, torch.arange(5)[None]), text_width))

    assert "MASK" in told
    assert "BIAS" not in told


class LooksAtMaps(nn.Module):
    """Learned rows that look at maps of several sizes in turn (Mask2Former)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(1, 5, 15))
        self.layers = nn.ModuleList(Reading(15, Attention(15, 3), norm="before") for _ in range(4))

    def forward(self, small, large):
        x = self.rows.expand(len(small), -1, -1)
        for number, layer in enumerate(self.layers):
            x = layer(x, (small, large)[number % 2])
        return x


@pytest.mark.parametrize(("large", "groups"), [(11, [(0, 2), (1, 3)]), (7, [(0, 1, 2, 3)])])
def test_layers_that_look_at_more_places_are_told_apart(large, groups):
    trace = xray.trace(LooksAtMaps().eval(), torch.randn(2, 7, 15), torch.randn(2, large, 15))
    (tower,) = anatomy(trace).towers

    assert [group.layers for group in tower.groups] == groups


def test_layers_that_differ_in_how_many_keys_they_have_say_so():
    trace = xray.trace(LooksAtMaps().eval(), torch.randn(2, 7, 15), torch.randn(2, 11, 15))
    told = words_of(compose_poster(trace, text_width))

    assert "1, 3: cross-attention, feed-forward; 7 keys" in told
    assert "2, 4: cross-attention, feed-forward; 11 keys" in told
