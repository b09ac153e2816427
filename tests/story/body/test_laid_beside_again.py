"""What earlier layers gave, or read, is laid beside a stream of maps: a U-Net says which, and before which layers."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import words_of
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.of_links import describe_put_back

CHANNELS = 6


class Residual(nn.Module):
    """A residual layer of convolutions, whose sum is divided by 1."""

    def __init__(self, read=CHANNELS):
        super().__init__()
        self.norm, self.mix = nn.GroupNorm(2, read), nn.Conv2d(read, CHANNELS, 3, padding=1)
        self.again = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.past = nn.Conv2d(read, CHANNELS, 1) if read != CHANNELS else nn.Identity()

    def forward(self, x):
        return (self.past(x) + self.again(functional.silu(self.mix(self.norm(x))))) / 1.0


class UNet(nn.Module):
    """Two layers, two in the middle, three that read what came before beside the stream, and one more."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Conv2d(3, CHANNELS, 3, padding=1), nn.Conv2d(CHANNELS, 3, 3, padding=1)
        self.down = nn.ModuleList(Residual() for _ in range(2))
        self.middle, self.last = nn.Sequential(Residual(), Residual()), Residual()
        self.up = nn.ModuleList(Residual(2 * CHANNELS) for _ in range(3))

    def forward(self, x):
        kept = [self.into(x)]
        for layer in self.down:
            kept.append(layer(kept[-1]))
        x = self.middle(kept[-1])
        for layer in self.up:
            x = layer(torch.cat([x, kept.pop()], dim=1))
        return self.out(self.last(x))


def test_what_lies_beside_the_stream_is_told_with_the_layer_that_gave_or_read_it():
    trace = xray.trace(UNet().eval(), torch.rand(2, 3, 8, 8))
    told = words_of(compose_poster(trace, text_width))

    (tower,) = anatomy(trace).towers
    laid = {one.before: one.earlier for one in tower.bridges if one.earlier is not None}
    assert laid == {4: (1, "gave"), 5: (0, "gave"), 6: (0, "read")}
    assert [group.layers for group in tower.groups] == [(0, 1, 2, 3, 7), (4, 5, 6)]
    assert "WITH WHAT LAYER 2 GAVE BESIDE IT" in told
    assert "before layer 6: what layer 1 gave before layer 7: what went into layer 1" in told
    assert "laid beside the stream: before layer 5 what layer 2 gave, before layer 6 what layer 1 gave" in told


class MirroredLayer(nn.Module):
    """A layer that may begin with what came before, led back to its width (HunyuanDiT)."""

    def __init__(self, *, leads):
        super().__init__()
        self.layer = Layer(12, Attention(12, 3), norm="before")
        self.lead = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 12)) if leads else None

    def forward(self, x, kept=None):
        return self.layer(x if self.lead is None else self.lead(torch.cat([x, kept], dim=-1)))


class Mirrored(nn.Module):
    """Layers of which the last ones each begin with what one of the first gave, the other way round."""

    def __init__(self, many):
        super().__init__()
        self.into, self.many = nn.Linear(12, 12), many
        self.layers = nn.ModuleList(MirroredLayer(leads=one > many) for one in range(2 * many + 1))

    def forward(self, x):
        x, kept = self.into(x), []
        for number, layer in enumerate(self.layers):
            x = layer(x, kept.pop() if number > self.many else None)
            kept += [x] * (number < self.many)
        return x


@pytest.mark.parametrize(
    ("many", "told"),
    [
        (2, "before layer 4 what layer 2 gave, before layer 5 what layer 1 gave."),
        (4, "before layers 6–9 what layers 4–1 gave, one each."),
    ],
)
def test_what_is_led_back_to_the_width_behind_that_is_told_too(many, told):
    found = anatomy(xray.trace(Mirrored(many).eval(), torch.rand(2, 7, 12)))

    assert describe_put_back(found) == f"What came before is laid beside the stream: {told}"


class Recurring(Mirrored):
    """The same two layers over and over, the first of which begins with what the very first gave (Huginn)."""

    def forward(self, x):
        x = kept = self.layers[0](self.into(x))
        for _ in range(3):
            x = self.layers[1](self.layers[2](x, kept))
        return x


def test_layers_before_which_that_is_led_back_stand_with_those_behind():
    (tower,) = anatomy(xray.trace(Recurring(1).eval(), torch.rand(2, 7, 12))).towers

    assert [one.earlier for one in tower.bridges] == [None, (0, "gave"), (0, "gave")]
    assert [group.layers for group in tower.groups] == [(0,), (1, 2), (3, 4), (5, 6)]


class Widened(nn.Module):
    """Layers between which each channel is repeated and added to what a convolution makes of all (DC-AE)."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Conv2d(3, CHANNELS, 1), nn.Conv2d(CHANNELS, 3, 3, padding=1)
        self.layers = nn.ModuleList(Residual() for _ in range(4))
        self.fewer, self.more = nn.Conv2d(CHANNELS, 2, 1), nn.Conv2d(2, CHANNELS, 3, padding=1)

    def forward(self, x):
        x = self.layers[1](self.layers[0](self.into(x)))
        x = x.unflatten(1, (2, 3)).mean(dim=2) + self.fewer(x)
        return self.out(self.layers[3](self.layers[2](self.more(x) + x.repeat_interleave(3, dim=1))))


def test_channels_that_are_repeated_are_no_rows():
    told = words_of(compose_poster(xray.trace(Widened().eval(), torch.rand(2, 3, 8, 8)), text_width))

    assert "EACH OF 2 CHANNELS 3 TIMES" in told
