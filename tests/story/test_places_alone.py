"""That each place is worked on alone is told of no branch that moves rows, or works with what it made of several."""

import pytest
import torch
from story.parameter_bars import IDS
from torch import nn

import xray

MEETING = {
    "the place before, put in front": lambda x: torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1),
    "the last place first": lambda x: x.flip(1),
    "all places rolled": lambda x: x.roll(2, 1),
    "their mean taken off": lambda x: x - x.mean(1, keepdim=True),
    "the first place added": lambda x: x + x[:, :1],
}
ALONE = {
    "the mean of each row taken off": lambda x: x - x.mean(-1, keepdim=True),
    "halves swapped": lambda x: torch.cat((x[..., 10:], x[..., :10]), -1),
}


class Led(nn.Module):
    """Rows go through a linear layer, or through a feed-forward, after something was done to them; then one that is."""

    def __init__(self, change, *, wider, turned=None):
        super().__init__()
        self.turned = turned
        self.table, self.norm, self.change = nn.Embedding(53, 20), nn.LayerNorm(20), change
        self.first = nn.ModuleList(self.make(wider=wider) for _ in range(2))
        if turned is not None:
            channels = 20 if turned else IDS.shape[1]
            self.first = nn.ModuleList(nn.Conv1d(channels, channels, 3, padding=1) for _ in range(2))
        self.then = nn.ModuleList(self.make(wider=True) for _ in range(2))

    def make(self, *, wider):
        if not wider:
            return nn.Linear(20, 20)
        return nn.Sequential(nn.Linear(20, 28), nn.ReLU(), nn.Linear(28, 20))

    def forward(self, ids):
        x = self.table(ids)
        for first, then in zip(self.first, self.then, strict=True):
            read = self.change(self.norm(x))
            x = x + (first(read.transpose(1, 2)).transpose(1, 2) if self.turned else first(read))
            x = x + then(self.norm(x))
        return x


def list_parts(change, *, wider, turned=None):
    (tower,) = xray.anatomy(xray.trace(Led(change, wider=wider, turned=turned).eval(), IDS)).towers
    return {branch.part for branch in tower.branches}


@pytest.mark.parametrize("wider", [True, False])
@pytest.mark.parametrize("way", MEETING)
def test_no_place_is_said_to_be_alone_where_rows_of_others_reach_it(way, wider):
    assert list_parts(MEETING[way], wider=wider) == {"unknown", "feed_forward"}


@pytest.mark.parametrize(("wider", "part"), [(True, "feed_forward"), (False, "projection")])
@pytest.mark.parametrize("way", ALONE)
def test_what_is_done_to_the_numbers_of_each_row_leaves_it_alone(way, wider, part):
    assert list_parts(ALONE[way], wider=wider) == {part, "feed_forward"}


@pytest.mark.parametrize(("turned", "part"), [(True, "convolution"), (False, "unknown")])
def test_a_convolution_along_the_numbers_of_rows_does_not_mix_places_near_each_other(turned, part):
    assert list_parts(lambda x: x, wider=False, turned=turned) == {part, "feed_forward"}
