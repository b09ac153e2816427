"""Three linear layers in a row, be they a feed-forward of each place or read rows of other places beside their own."""

import torch
from torch import nn

import xray
from xray.story.anatomy.branches import FeedForward, Unknown
from xray.story.sheet.columns import read_columns

WIDTH, PLACES, NEAR = 16, 5, 3


class Deep(nn.Module):
    """A branch of three layers, which may read the rows of `near` places beside those of the stream (ProteinMPNN)."""

    def __init__(self, *, reads=1):
        super().__init__()
        self.first, self.middle, self.last = (
            nn.Linear(reads * WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(self, x):
        return self.last(self.middle(self.first(x).relu()).relu())


class Alone(Deep):
    def forward(self, x):
        return x + super().forward(x)


class Pairs(nn.Module):
    """Rows of pairs of places; to these is added what they say beside the row of the other place, in two layers."""

    def __init__(self):
        super().__init__()
        self.places, self.pairs = nn.Linear(7, WIDTH), nn.Linear(2, WIDTH)
        self.layers = nn.ModuleList(Deep(reads=2) for _ in range(2))
        self.alone = nn.ModuleList(Alone() for _ in range(2))

    def forward(self, points, distances, near):
        rows, pairs = self.places(points), self.pairs(distances)
        for layer, alone in zip(self.layers, self.alone, strict=True):
            picked = rows.gather(1, near.view(2, -1, 1).expand(-1, -1, WIDTH)).view(2, PLACES, NEAR, WIDTH)
            pairs = alone(pairs + layer(torch.cat([pairs, picked], -1)))
        return pairs


def test_a_layer_between_two_others_has_a_box():
    (column,) = read_columns(xray.trace(nn.Sequential(Alone(), Alone()).eval(), torch.rand(2, PLACES, WIDTH)))

    (panel,) = column.frames[0].panels
    assert isinstance(panel.staging.branches[0].branch, FeedForward)
    assert [node.label for node in panel.chart.nodes] == ["LINEAR", "ReLU", "LINEAR", "ReLU", "LINEAR", "ADD"]


def test_rows_of_other_places_beside_those_of_the_stream_make_no_feed_forward():
    given = torch.rand(2, PLACES, 7), torch.rand(2, PLACES, NEAR, 2), torch.randint(PLACES, (2, PLACES, NEAR))
    (tower,) = xray.anatomy(xray.trace(Pairs().eval(), *given)).towers

    assert [type(branch) for branch in tower.branches] == [Unknown, FeedForward]
