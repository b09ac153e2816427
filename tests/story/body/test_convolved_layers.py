"""A convolution between linear layers: what a layer mixes places by, or what helps a feed-forward behind attention."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray


class Convolved(nn.Module):
    """Rows grow wide, are convolved, and are narrow again; no norm lies between."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)
        self.near = nn.Conv1d(17, 17, 3, padding=1, groups=17)

    def forward(self, x):
        wide = self.wide(self.norm(x)).relu()
        return x + self.back(self.near(wide.mT).mT.relu())


@pytest.mark.parametrize(
    ("parts", "kinds"),
    [
        ((Convolved, FeedForwardPart), ["convolution", "feed_forward"]),
        ((AttentionPart, Convolved), ["attention", "feed_forward"]),
    ],
    ids=["mixes places", "behind attention"],
)
def test_a_convolution_of_wide_rows_is_what_a_layer_mixes_places_by_where_nothing_looks(parts, kinds):
    torch.manual_seed(0)
    layers = (nn.Sequential(*(part() for part in parts)) for _ in range(2))
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers).eval()
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(BATCH, PLACES, 7))).towers

    assert [[branch.part for stage in group.stages for branch in stage.branches] for group in tower.groups] == [kinds]
