"""Masks of a branch that holds several attentions: each is told of the one whose scores it hides."""

import torch
from printed import lines_of
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(12, 12) for _ in range(4))

    def forward(self, x, memory, mask=None):
        q, k, v = (one.unflatten(-1, (3, 4)).transpose(1, 2) for one in (self.q(x), self.k(memory), self.v(memory)))
        return self.out(functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


class Reads(nn.Module):
    """What comes in as a map is added once, behind attentions that stand one behind the other (DreamLite)."""

    def __init__(self):
        super().__init__()
        self.within, self.across = Looks(), Looks()
        self.norms = nn.ModuleList(nn.LayerNorm(12) for _ in range(3))
        self.into, self.back = nn.Conv2d(12, 12, 1), nn.Conv2d(12, 12, 1)
        self.think = nn.Sequential(nn.Linear(12, 29), nn.GELU(), nn.Linear(29, 12))

    def forward(self, image, memory, mask):
        x = self.into(image).flatten(2).transpose(1, 2)
        read = self.norms[0](x)
        x = x + self.within(read, read)
        x = x + self.across(self.norms[1](x), memory, mask)
        x = x + self.think(self.norms[2](x))
        return image + self.back(x.transpose(1, 2).unflatten(2, image.shape[2:]))


def test_a_mask_is_told_of_the_attention_whose_scores_it_hides():
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    trace = xray.trace(Reads(), torch.rand(2, 12, 3, 7), torch.rand(2, 5, 12), mask)

    told = [line for line in lines_of(compose_poster(trace, text_width)) if line.startswith("MASK OF")]
    assert [line.rpartition(" ")[0] for line in told] == ["MASK OF CROSS-ATTENTION"]
