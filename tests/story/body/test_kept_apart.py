"""What a mask keeps apart that a roll alone brings into one window is told (Swin)."""

import pytest
import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.charts.stage_names import name_branch
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.where import attentions

WIDTH, SIDE, SHIFT = 15, 3, 1


class Windowed(nn.Module):
    """Attention within square windows of a map that is rolled before, and back behind, with a mask or without one."""

    def __init__(self, masked, wrong):
        super().__init__()
        self.look, self.masked, self.wrong = Adds(), masked, wrong

    def forward(self, x):
        batch, high, wide, _ = x.shape
        x = self.cut(torch.roll(x, shifts=(-SHIFT, -SHIFT), dims=(1, 2)))
        x = self.look(x, self.mask(high, wide) if self.masked else None)
        x = x.view(batch, high // SIDE, wide // SIDE, SIDE, SIDE, -1).transpose(2, 3).reshape(batch, high, wide, -1)
        return torch.roll(x, shifts=(SHIFT, SHIFT), dims=(1, 2))

    def cut(self, x):
        batch, high, wide, width = x.shape
        x = x.view(batch, high // SIDE, SIDE, wide // SIDE, SIDE, width).transpose(2, 3)
        return x.reshape(-1, SIDE * SIDE, width)

    def mask(self, high, wide):
        late = high - SHIFT - self.wrong
        parts = 2 * (torch.arange(high) >= late).long()[:, None] + (torch.arange(wide) >= wide - SHIFT).long()
        parts = self.cut(parts[None, :, :, None])[..., 0]
        apart = (parts.unsqueeze(1) - parts.unsqueeze(2)).float()
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)


class Adds(Attention):
    """Attention of so many windows, to whose scores a mask of each is added."""

    def __init__(self):
        super().__init__(WIDTH, 3)

    def forward(self, x, mask):  # type: ignore[override]
        q, k, v = (
            made(x).view(len(x), -1, self.heads, WIDTH // self.heads).transpose(1, 2)
            for made in (self.first, self.second, self.third)
        )
        scores = q @ k.transpose(-2, -1) / 5**0.5
        if mask is not None:
            scores = scores.view(-1, len(mask), *scores.shape[1:]) + mask[None, :, None]
            scores = scores.view(-1, *scores.shape[2:])
        return self.last((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.look, self.norm, self.again = Windowed(**how), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.ReLU(), nn.Linear(31, WIDTH))

    def forward(self, x):
        x = x + self.look(self.norm(x))
        return x + self.think(self.again(x))


class Seen(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 2, stride=2)
        self.layers = nn.ModuleList(Layer(**how) for _ in range(2))

    def forward(self, image):
        x = self.patches(image).permute(0, 2, 3, 1)
        for layer in self.layers:
            x = layer(x)
        return x


def look(size, *, masked=True, wrong=0):
    torch.manual_seed(0)
    found = xray.anatomy(xray.trace(Seen(masked=masked, wrong=wrong), torch.rand(2, 3, 2 * size, 2 * size)))
    (one,) = set(attentions(found))
    return one, list_sentences(found)


TOLD = " A mask takes 100 off the scores of places that the roll alone brings into one window."


def test_a_mask_that_keeps_apart_what_a_roll_brought_together_is_told():
    one, told = look(6)

    assert (one.window, one.rolled, one.kept_apart) == (9, True, 100)
    assert any(text.endswith(TOLD) for text in told)


@pytest.mark.parametrize("how", [{"masked": False}, {"wrong": 1}])
def test_no_mask_and_one_that_hides_others_are_told_as_no_such(how):
    one, told = look(6, **how)

    assert one.kept_apart is None
    assert not any(TOLD in text for text in told)


def test_places_of_one_window_that_are_rolled_are_called_that():
    one, _ = look(3)

    assert (one.window, one.rolled, one.kept_apart) == (None, True, 100)
    assert name_branch(one) == "SELF-ATTENTION OF ROLLED PLACES"
