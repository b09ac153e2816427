"""Places gathered into fewer keys, and a class token beside them that stays as it is."""

import torch
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.sentences.of_stations import describe_station

WIDTH, SIDE = 12, 6


class Gathers(nn.Module):
    """An attention whose keys and values are made of maps by a convolution, behind the class token (CvT)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fewer = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, 3) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        token, places = self.norm(x).split((1, SIDE * SIDE), 1)
        laid = places.transpose(1, 2).unflatten(2, (SIDE, SIDE))
        key, value = (torch.cat((token, conv(laid).flatten(2).transpose(1, 2)), 1) for conv in self.fewer)
        query = torch.cat((token, laid.flatten(2).transpose(1, 2)), 1)
        heads = (
            layer(one).view(2, -1, 3, 4).transpose(1, 2)
            for layer, one in ((self.query, query), (self.key, key), (self.value, value))
        )
        query, key, value = heads
        found = (query @ key.transpose(2, 3) / 2).softmax(-1) @ value
        return x + self.out(found.transpose(1, 2).flatten(2))


def test_a_row_that_stays_as_it_is_hides_not_that_the_others_were_gathered():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Gathers(), Gathers())
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, 1 + SIDE**2, WIDTH))).towers

    found = [branch for branch in tower.branches if isinstance(branch, Attention)]
    assert [(branch.gathered, branch.ungathered) for branch in found] == [(9, 1)]
    assert describe_station(tower, found[0]).endswith("by one key for every 9; the row beside them has its own.")
