"""Streams that a product makes anew of themselves, beside the row of a sublayer: read where both are taken apart."""

import pytest
import torch
from handwritten import Attention
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

STREAMS, WIDTH, HEADS = 3, 8, 2


class Looking(nn.Module):
    """Attention behind a norm, with no sum of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(WIDTH), Attention(WIDTH, HEADS)

    def forward(self, x):
        x = self.norm(x)
        return self.inner(x, x)


class Connected(nn.Module):
    """A sublayer on one row of several streams, each mixed anew by weights made of all (Zhu et al. 2024)."""

    def __init__(self, branch):
        super().__init__()
        self.branch, self.norm = branch, nn.LayerNorm(WIDTH)
        self.alpha = nn.Parameter(torch.randn(WIDTH, STREAMS + 1))
        self.start = nn.Parameter(torch.randn(STREAMS, STREAMS + 1))
        self.beta = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        streams = x.unflatten(0, (-1, STREAMS)).permute(0, 2, 1, 3)
        normed = self.norm(streams)
        alpha = torch.tanh(normed @ self.alpha) + self.start
        mixed = torch.einsum("...st,...sd->...td", self.weigh(alpha), streams)
        row, kept = self.part(mixed)
        share = torch.tanh(normed @ self.beta).unsqueeze(-1)
        given = torch.einsum("...d,...si->...sd", self.branch(row), share)
        return (given + kept).permute(0, 2, 1, 3).flatten(0, 1)

    def weigh(self, alpha):
        return alpha

    def part(self, mixed):
        return mixed[..., 0, :], mixed[..., 1:, :]


class Crossed(Connected):
    """The row of a sublayer is one of the streams too."""

    def part(self, mixed):
        return mixed[..., 1, :], mixed[..., 1:, :]


class Balanced(Connected):
    """The matrix that mixes the streams is divided by the sums of its rows and columns in turn (Xie et al. 2026)."""

    def weigh(self, alpha):
        first, others = alpha.split((1, STREAMS), -1)
        others = others.softmax(-2)
        for _ in range(8):
            others = functional.normalize(functional.normalize(others, p=1, dim=-1), p=1, dim=-2)
        return torch.cat((first.sigmoid(), others), -1)


class Mixed(nn.Module):
    """Several streams that begin as one, and end as their sum."""

    def __init__(self, connected=Connected):
        super().__init__()
        parts = [part for _ in range(2) for part in (Looking(), self.think())]
        self.layers = nn.ModuleList(map(connected, parts))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5)

    def think(self):
        return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 17), nn.GELU(), nn.Linear(17, WIDTH))

    def forward(self, x):
        x = x.repeat_interleave(STREAMS, dim=0)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x.unflatten(0, (-1, STREAMS)).sum(1)))


@pytest.mark.parametrize("connected", [Connected, Balanced])
def test_streams_that_are_mixed_with_the_row_of_a_sublayer_are_streams_side_by_side(connected):
    (tower,) = xray.anatomy(xray.trace(Mixed(connected), torch.randn(2, 5, WIDTH))).towers

    assert (tower.layers, tower.streams, tower.d_model, tower.final_norm) == (2, STREAMS, WIDTH, "layer")


def test_a_layer_of_streams_has_boxes_for_what_makes_one_row_of_them_and_gives_it_back():
    trace = xray.trace(Mixed(), torch.randn(2, 5, WIDTH))
    layout = compose_poster(trace, text_width)
    words = ["".join(run.text for run in line) for box in layout.boxes for line in box.lines[:1]]

    told = [f"{STREAMS} STREAMS INTO ONE", f"ONE INTO {STREAMS} STREAMS", "ADD TO THE STREAMS, MIXED"]
    assert [sum(one.startswith(each) for one in words) for each in told] == [
        3,
        2,
        2,
    ]  # the last one is behind all layers
    assert "Each place alone, wider and back." in words


def test_streams_of_which_one_is_the_row_of_a_sublayer_too_are_drawn_by_blocks():
    trace = xray.trace(Mixed(Crossed), torch.randn(2, 5, WIDTH))

    assert not xray.anatomy(trace).towers
    assert compose_poster(trace, text_width) is None
