"""Branches of which some follow one another within one sublayer, and others stand beside each other there."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, read, rows
from torch import nn

from xray.story.charts.stage_names import join_names


class Attending(AttentionPart):
    """What heads find in normalised rows, and nothing added to it."""

    def __init__(self):
        super().__init__()
        self.register_module("norm", nn.Identity())

    def forward(self, x):
        return super().forward(x) - x


class Low(nn.Module):
    """A linear layer to a few numbers, and one back (LAuReL)."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(WIDTH, 2), nn.Linear(2, WIDTH)

    def forward(self, x):
        return self.right(self.left(x))


class Sublayer(nn.Module):
    """A low way, an attention and a feed-forward before one sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.low, self.look, self.think = nn.LayerNorm(WIDTH), Low(), Attending(), Thinking()

    def forward(self, x):
        normed = self.norm(x)
        return x + self.think(self.join(normed))

    def join(self, x):
        return torch.cat([self.low(x), self.look(x)], dim=-1)


class InOrder(Sublayer):
    """The attention reads what the low way gives."""

    def join(self, x):
        x = self.look(self.low(x))
        return torch.cat([x, x], dim=-1)


class Thinking(nn.Module):
    """A feed-forward of rows that are twice as wide."""

    def __init__(self):
        super().__init__()
        self.out, self.bend, self.back = nn.Linear(2 * WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH)

    def forward(self, x):
        return self.back(self.bend(self.out(x)))


def find_stages(kind):
    (tower,) = read(Reader(kind(), FeedForwardPart(), kind(), FeedForwardPart()), rows()).towers
    return tower.groups[0].stages


def test_a_branch_that_the_next_one_does_not_read_stands_beside_it():
    first, last = find_stages(Sublayer)

    assert [one.part for one in first.branches[1:]] == ["attention", "feed_forward"]
    assert (first.beside, first.parallel, last.beside) == ((0,), False, None)
    assert join_names(first, ["A", "B", "C"]) == "A BESIDE B THEN C"


def test_branches_that_read_one_another_stand_beside_none():
    assert find_stages(InOrder)[0].beside is None
