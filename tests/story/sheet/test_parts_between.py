"""Several sublayers inside one sum: an attention that its block works out itself, and weights that none reads."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart
from story.parameter_bars import bars_of, count, poster_of
from torch import nn

import xray

LENGTH = 9


class Inline(nn.Module):
    """An attention that has no block of its own, with a number for each two places, and a feed-forward that has one."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table, self.think = nn.Parameter(torch.randn(2 * LENGTH - 1, HEADS)), FeedForwardPart()

    def forward(self, x):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).transpose(1, 2) for one in rows.split(1, dim=-3))
        places = torch.arange(LENGTH)
        bias = self.table[places[:, None] - places + LENGTH - 1].permute(2, 0, 1)
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias).softmax(-1)
        return self.think(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


class Scaled(nn.Module):
    """The stream is multiplied by learned numbers first, then an attention and a feed-forward follow."""

    def __init__(self):
        super().__init__()
        self.scale, self.parts = nn.Parameter(torch.rand(WIDTH)), nn.Sequential(AttentionPart(), FeedForwardPart())

    def forward(self, x):
        return self.parts(x * self.scale.exp())


class Group(nn.Module):
    """Parts one behind the other, and a linear layer; all of it is added to the stream (HAT)."""

    def __init__(self, *parts):
        super().__init__()
        self.parts, self.back = nn.Sequential(*parts), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.back(self.parts(x))


def build(last):
    """Layers of an attention, a feed-forward, and what is last."""
    groups = (Group(nn.Sequential(AttentionPart(), FeedForwardPart()), last()) for _ in range(2))
    return nn.Sequential(nn.Linear(7, WIDTH), *groups)


def test_an_attention_that_a_block_works_out_itself_stands_between_two_feed_forwards():
    trace = xray.trace(build(Inline).eval(), torch.randn(2, LENGTH, 7))

    (group,) = xray.anatomy(trace).towers[0].groups
    assert [one.part for one in group.stages[0].branches] == ["attention", "feed_forward"] * 2


@pytest.mark.parametrize(("last", "apart"), [(Inline, 2 * ((2 * LENGTH - 1) * HEADS - 2 * WIDTH)), (Scaled, 0)])
def test_its_table_counts_with_it_and_what_no_sublayer_reads_is_in_common_to_none(last, apart):
    model = build(last)
    bars = bars_of(poster_of(model.eval(), torch.randn(2, LENGTH, 7)))

    assert bars["self-attention × 4"] == 4 * count(AttentionPart()) + apart  # the norm before it stands around it
    assert sum(bars.values()) == count(model)
