"""One row of a stream that is normed and put back where it was: the layer goes on behind it (XCiT's class row)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart, Reader, read, rows
from story.body.test_replaced import Layer, Looks
from torch import nn

from xray.story.sentences.of_models import list_sentences


class ClassBlock(nn.Module):
    """Attention of all rows, a norm of the first one alone, which it is put back by, and a feed-forward of that one."""

    def __init__(self, *, puts=True):
        super().__init__()
        self.norm, self.look, self.puts = nn.LayerNorm(WIDTH), Looks(), puts
        self.own, self.scale = nn.LayerNorm(WIDTH), nn.Parameter(torch.ones(WIDTH))
        self.feed = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        x = x + self.look(self.norm(x))
        if self.puts:
            x[:, 0:1] = self.own(x[:, 0:1])
        made = self.scale * self.feed(x[:, 0:1])
        return x + torch.cat([made, x[:, 1:]], dim=1)


class InFront(nn.Module):
    """A learned row in front of the others."""

    def __init__(self):
        super().__init__()
        self.row = nn.Parameter(torch.zeros(1, 1, WIDTH))

    def forward(self, x):
        return torch.cat([self.row.expand(len(x), -1, -1), x], dim=1)


def read_blocks(**told):
    plain = [nn.Sequential(Layer(), FeedForwardPart()) for _ in range(2)]
    return read(Reader(*plain, InFront(), *(ClassBlock(**told) for _ in range(2))), rows())


def test_a_layer_goes_on_behind_a_row_that_is_normed_and_put_back():
    found = read_blocks()
    (tower,) = found.towers
    look, think = tower.groups[1].stages

    assert [group.count for group in tower.groups] == [2, 2]
    assert (look.branches[0].part, think.branches[0].part) == ("attention", "feed_forward")
    assert think.norm.place is None
    assert not any("no norm of its own" in line for line in list_sentences(found))


@pytest.mark.parametrize("puts", [False, True])
def test_numbers_that_multiply_one_row_are_told_where_others_stand_beside_it(puts):
    assert read_blocks(puts=puts).towers[0].groups[1].stages[1].scale == "learned"
