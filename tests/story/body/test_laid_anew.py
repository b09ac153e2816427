"""A convolution is told to mix neighbours unless its map was laid out across the axes of the rows (OmniTokenizer)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart, read
from torch import nn

from xray.story.anatomy.branches import Convolution
from xray.story.branches.convolutions import cuts_across
from xray.story.sentences.stations.of_stations import describe_station

SIDE, TIMES = 5, 7


class Placed(nn.Module):
    """Numbers of places that a convolution makes of a film, of rows that are sequences of one place each."""

    def __init__(self, *, turns):
        super().__init__()
        self.turns, self.mix = turns, nn.Conv3d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        if self.turns:
            film = x.view(2, SIDE, SIDE, TIMES, WIDTH).permute(0, 4, 3, 1, 2)
            return x + self.mix(film).permute(0, 3, 4, 2, 1).reshape(x.shape)
        film = x.reshape(2, TIMES, SIDE, SIDE, WIDTH).permute(0, 4, 1, 2, 3)
        return x + self.mix(film).permute(0, 2, 3, 4, 1).reshape(x.shape)


@pytest.mark.parametrize(("turns", "told"), [(True, "places near it"), (False, "others")])
def test_neighbours_are_mixed_where_axes_are_kept_or_turned_alone(turns, told):
    layers = nn.Sequential(*(one for _ in range(2) for one in (Placed(turns=turns), FeedForwardPart())))
    (tower,) = read(layers, torch.randn(2 * SIDE * SIDE, TIMES, WIDTH)).towers

    said = {describe_station(tower, one) for one in tower.branches if isinstance(one, Convolution)}
    assert said == {f"Each place is mixed with {told}."}


@pytest.mark.parametrize(
    ("before", "after", "is_across"),
    [
        ((2, 35, 11), (2, 5, 7, 11), False),
        ((2, 5, 7, 11), (10, 77), False),
        ((25, 7, 11), (1, 7, 5, 5, 11), True),
        ((2, 35, 11), (2, 11, 5, 7), True),
        ((5, 1, 7), (1, 5, 7), False),
    ],
)
def test_axes_that_are_parts_of_others_are_not_cut_across(before, after, is_across):
    assert cuts_across(before, after) is is_across
