"""Weights that a model divides in place before it works with them (RWKV)."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sentences.of_links import describe_divided


class Divided(nn.Module):
    """Layers whose last weights are divided by more the later they stand, before the first of them works, or after."""

    def __init__(self, *, first):
        super().__init__()
        self.first, self.words = first, nn.Embedding(17, WIDTH)
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(5))

    def divide(self):
        with torch.no_grad():
            for place, think in enumerate(self.thinks):
                next(one for one in think.parameters() if one.dim() > 1).div_(2 ** (place // 2))

    def forward(self, ids):
        if self.first:
            self.divide()
        x = self.words(ids)
        if not self.first:
            self.divide()
        for think in self.thinks:
            x = think(x)
        return x


@pytest.mark.parametrize(("first", "numbers"), [(True, (2, 4)), (False, ())])
def test_numbers_by_which_weights_are_divided_first_are_told(first, numbers):
    found = xray.anatomy(xray.trace(Divided(first=first).eval(), torch.arange(BATCH * PLACES).view(BATCH, PLACES)))

    assert found.divided == numbers
    assert ("divided in place: by 2 or 4" in describe_divided(found)) is first
