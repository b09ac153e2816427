"""Sublayers that both convolve are alike only where they do the same."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from story.body.test_mistaken import AttentionPart, FeedForwardPart, read
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy import branches as anatomy
from xray.story.poster import compose_poster

CHANNELS, WIDE, PLACES = 12, 17, 5


class Mixing(nn.Module):
    """A convolution of each channel by itself, added to what came in."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)

    def forward(self, x):
        return x + self.mix(x)


class Widening(nn.Module):
    """The same convolution, but what it makes goes out to more channels and back."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.wide, self.back = nn.Conv1d(CHANNELS, WIDE, 1), nn.Conv1d(WIDE, CHANNELS, 1)

    def forward(self, x):
        return x + self.back(nn.functional.gelu(self.wide(self.mix(x))))


class Convolving(nn.Module):
    """A block of two convolutions, between rows that are laid the other way (RepMixer of MobileCLIP)."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(part() for part in parts)

    def forward(self, x):
        x = x.transpose(1, 2)
        for part in self.parts:
            x = part(x)
        return x.transpose(1, 2)


class Looking(nn.Sequential):
    def __init__(self):
        super().__init__(AttentionPart(), FeedForwardPart())


class Mixed(nn.Module):
    """Blocks that convolve before and behind those that look."""

    def __init__(self, *parts):
        super().__init__()
        self.given = nn.Linear(7, CHANNELS)
        self.blocks = nn.ModuleList([Convolving(*parts), Looking(), Looking(), Looking(), Convolving(*parts)])

    def forward(self, x):
        x = self.given(x)
        for block in self.blocks:
            x = block(x)
        return x


def list_groups(*parts):
    (tower,) = read(Mixed(*parts), torch.randn(2, PLACES, 7)).towers
    return [(group.layers, len(group.stages)) for group in tower.groups]


def test_convolutions_that_do_other_things_are_sublayers_of_one_layer():
    assert list_groups(Mixing, Widening) == [((0, 4), 2), ((1, 2, 3), 2)]


def test_convolutions_that_do_the_same_are_a_layer_each():
    assert list_groups(Mixing, Mixing) == [((0, 1), 1), ((2, 3, 4), 2), ((5, 6), 1)]


class KeysConvolved(Attention):
    """Keys and values are made of what a convolution gives of the rows (CvT)."""

    def __init__(self, kernel, step):
        super().__init__(CHANNELS, 3)
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, kernel, stride=step, padding=kernel // 2 if step == 1 else 0)

    def forward(self, x, memory, mask=None):
        return super().forward(x, self.mix(memory.mT).mT, mask)


@pytest.mark.parametrize(("kernel", "step", "told"), [(3, 1, None), (1, 1, "none"), (2, 2, "none")])
def test_an_attention_whose_keys_let_neighbours_in_is_not_said_to_know_no_places(kernel, step, told):
    layers = (Layer(CHANNELS, KeysConvolved(kernel, step), norm="before") for _ in range(2))
    trace = xray.trace(nn.Sequential(nn.Embedding(11, CHANNELS), *layers).eval(), torch.arange(PLACES)[None])

    (tower,) = xray.anatomy(trace).towers
    looking = [one for one in tower.branches if isinstance(one, anatomy.Attention)]
    assert [one.positions for one in looking] == [told]


class Wide(nn.Module):
    """Words, mixed by a convolution over so many places."""

    def __init__(self, kernel):
        super().__init__()
        self.words, self.kernel = nn.Embedding(31, CHANNELS), kernel
        self.norms = nn.ModuleList(nn.LayerNorm(CHANNELS) for _ in range(2))
        self.mix = nn.ModuleList(nn.Conv1d(CHANNELS, CHANNELS, kernel, padding=kernel // 2) for _ in range(2))
        self.narrow = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS) for _ in range(2))

    def forward(self, ids):
        x = self.words(ids)
        for norm, mix, out in zip(self.norms, self.mix, self.narrow, strict=True):
            x = x + out(mix(norm(x).mT).mT)
            x = x + out(nn.functional.gelu(out(norm(x))))
        return x


@pytest.mark.parametrize(("kernel", "told"), [(3, "places near it"), (15, "others")])
def test_a_kernel_as_wide_as_all_places_is_not_said_to_mix_those_near_by(kernel, told):
    said = " ".join(lines_of(compose_poster(xray.trace(Wide(kernel).eval(), torch.arange(14).view(2, 7)), text_width)))

    assert f"Each place is mixed with {told}." in " ".join(said.split())
    assert ("near each other" in said) == (kernel == 3)


def test_a_convolution_along_the_batch_is_not_told_as_one_over_places():
    class Along(nn.Module):
        def __init__(self, *, turned):
            super().__init__()
            self.norm, self.mix = nn.LayerNorm(CHANNELS), nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1)
            self.turned = turned

        def forward(self, x):
            return x + self.mix(self.norm(x).permute(self.turned)).permute(torch.tensor(self.turned).argsort().tolist())

    def told(turned):
        model = nn.Sequential(
            nn.Linear(7, CHANNELS), *(one for _ in range(2) for one in (Along(turned=turned), Looking()))
        )
        return any(
            "onvolutions mix places" in line
            for line in lines_of(compose_poster(xray.trace(model, torch.randn(2, PLACES, 7)), text_width))
        )

    assert told((0, 2, 1))
    assert not told((1, 2, 0))


class Convolved(nn.Module):
    """A convolution of the last places, added to what came in, with `more` behind it."""

    def __init__(self, more):
        super().__init__()
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=2, groups=CHANNELS)
        self.fade, self.recur, self.across = (
            nn.Linear(CHANNELS, CHANNELS),
            nn.GRU(CHANNELS, CHANNELS, batch_first=True),
            nn.Linear(PLACES, PLACES),
        )
        self.more = more

    def forward(self, x):
        return x + self.more(self, self.mix(x.mT)[..., :-2].mT)


def turn(model, x):
    """A state in two parts that is stacked and cut apart at each place (xLSTM)."""
    state, found = torch.zeros(2, len(x), CHANNELS), []
    for one in model.fade(x).unbind(1):
        kept, count = state.unbind(0)
        state = torch.stack((kept.sigmoid() + one, count + 1))
        found.append(state[0] / state[1])
    return torch.stack(found, 1)


@pytest.mark.parametrize(
    "more",
    [
        lambda model, x: model.recur(x)[0],
        lambda model, x: model.fade(x).cumsum(1),
        lambda model, x: torch.logcumsumexp(model.fade(x), 1),
        lambda model, x: model.across(x.mT).mT,
        lambda model, x: torch.fft.irfft(torch.fft.rfft(x, dim=1) * 2, n=PLACES, dim=1),
        turn,
    ],
)
def test_what_mixes_places_by_more_than_convolutions_is_no_convolution(more):
    model = nn.Sequential(*(nn.Sequential(Convolved(more), FeedForwardPart()) for _ in range(2)))
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, PLACES, CHANNELS))).towers

    assert not any(isinstance(one, anatomy.Convolution) for one in tower.branches)


def test_a_convolution_with_a_gate_behind_it_is_one():
    model = nn.Sequential(
        *(nn.Sequential(Convolved(lambda model, x: x * model.fade(x)), FeedForwardPart()) for _ in range(2))
    )
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, PLACES, CHANNELS))).towers

    assert any(isinstance(one, anatomy.Convolution) for one in tower.branches)
