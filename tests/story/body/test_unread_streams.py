"""Streams that a product makes anew of themselves, beside the row of a sublayer: no layers are told of these."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

STREAMS = 3


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
        row, kept = mixed[..., 0, :], mixed[..., 1:, :]
        share = torch.tanh(normed @ self.beta).unsqueeze(-1)
        given = torch.einsum("...d,...si->...sd", self.branch(row), share)
        return (given + kept).permute(0, 2, 1, 3).flatten(0, 1)

    def weigh(self, alpha):
        return alpha


class Balanced(Connected):
    """The matrix that mixes the streams is divided by the sums of its rows and columns in turn (Xie et al. 2026)."""

    def weigh(self, alpha):
        first, others = alpha.split((1, STREAMS), -1)
        others = others.softmax(-2)
        for _ in range(8):
            others = functional.normalize(functional.normalize(others, p=1, dim=-1), p=1, dim=-2)
        return torch.cat((first.sigmoid(), others), -1)


class Mixed(nn.Module):
    """Several streams that begin as one, and end as their sum; or one."""

    def __init__(self, count, connected=Connected):
        super().__init__()
        parts = [AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart()]
        self.layers = nn.ModuleList([connected(part) for part in parts] if count > 1 else parts)
        self.count, self.head = count, nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = x.repeat_interleave(self.count, dim=0)
        for layer in self.layers:
            x = layer(x)
        return self.head(functional.layer_norm(x.unflatten(0, (-1, self.count)).sum(1), x.shape[-1:]))


@pytest.mark.parametrize("count", [1, STREAMS])
def test_streams_that_are_mixed_with_the_row_of_a_sublayer_are_drawn_by_blocks(count):
    trace = xray.trace(Mixed(count), torch.randn(2, 5, WIDTH))

    assert bool(xray.anatomy(trace).towers) == (count == 1)
    assert (compose_poster(trace, text_width) is None) == (count > 1)


def test_streams_that_are_mixed_by_a_matrix_made_even_are_drawn_by_blocks():
    trace = xray.trace(Mixed(STREAMS, Balanced), torch.randn(2, 5, WIDTH))

    assert not xray.anatomy(trace).towers
    assert compose_poster(trace, text_width) is None
