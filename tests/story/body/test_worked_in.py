"""Two streams that are worked into one another: where steps would be of layers of both, no tower is told."""

import pytest
import torch
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.body.reading import read_pass


class Looking(nn.Module):
    """Few rows look at many, go on, and are looked at by the scores that they had (LookViT)."""

    def __init__(self, *, looked_back):
        super().__init__()
        self.norm, self.norm_of, self.normed = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.query, self.key, self.value, self.other = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.out, self.again = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.look, self.think, self.last = AttentionPart(), FeedForwardPart(), FeedForwardPart()
        self.looked_back = looked_back

    def forward(self, few, many):
        asked = self.norm_of(many)
        scores = self.query(self.norm(few)) @ self.key(asked).mT * WIDTH**-0.5
        few = few + self.out(scores.softmax(-1) @ self.value(asked))
        few = self.think(self.look(few))
        if self.looked_back:
            many = self.normed(many + self.again(scores.mT.softmax(-1) @ self.other(few)))
        return few, self.last(many)


class Pair(nn.Module):
    """An image's patches, and a pool of them beside; what both become is added up."""

    def __init__(self, *, looked_back):
        super().__init__()
        self.lay = nn.Conv2d(3, WIDTH, 4, 4)
        self.layers = nn.ModuleList(Looking(looked_back=looked_back) for _ in range(2))
        self.norm, self.other, self.head = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 7)

    def forward(self, image):
        maps = self.lay(image)
        few, many = (one.flatten(2).mT for one in (nn.functional.avg_pool2d(maps, 2), maps))
        for layer in self.layers:
            few, many = layer(few, many)
        return self.head(self.norm(few).mean(1) + self.other(many).mean(1))


@pytest.mark.parametrize(("looked_back", "is_told"), [(True, False), (False, True)])
def test_towers_with_sums_and_weights_in_common_are_none(looked_back, is_told):
    (forward,) = xray.trace(Pair(looked_back=looked_back).eval(), torch.rand(BATCH, 3, 16, 16)).passes

    assert bool(read_pass(forward).towers) == is_told
