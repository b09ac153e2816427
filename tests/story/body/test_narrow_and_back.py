"""Two linear layers that make rows narrower, and as wide as before, are a feed-forward where they bend between."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import FeedForward
from xray.story.poster import compose_poster

WIDTH, NARROW = 12, 5


class Written(nn.Module):
    """An RMS norm, written out."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Narrow(nn.Module):
    """A norm, down and up by linear layers, be it bent between, and another norm."""

    def __init__(self, bend):
        super().__init__()
        self.norm, self.last, self.bend = Written(), Written(), bend
        self.down, self.up = nn.Linear(WIDTH, NARROW), nn.Linear(NARROW, WIDTH)

    def forward(self, x):
        return x + self.last(self.up(self.bend(self.down(self.norm(x)))))


@pytest.mark.parametrize(("bend", "is_forward"), [(nn.Identity(), False), (nn.GELU(), True)])
def test_linear_layers_without_a_bend_are_no_feed_forward_though_a_norm_behind_them_squares(bend, is_forward):
    layers = [one for _ in range(2) for one in (Layer(WIDTH, Attention(WIDTH, 3), norm="before"), Narrow(bend))]
    trace = xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers).eval(), torch.arange(14).view(2, 7))
    texts = ["".join(run.text for run in line) for box in compose_poster(trace, text_width).boxes for line in box.lines]

    told = {one.d_ff for tower in xray.anatomy(trace).towers for one in tower.branches if isinstance(one, FeedForward)}
    assert (NARROW in told) == is_forward
    assert f"feed-forward × {4 if is_forward else 2}" in {text.partition(",")[0] for text in texts}
