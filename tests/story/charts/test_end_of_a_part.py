"""What brings together all that a long part gives has a box, however many steps there are."""

import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH = 12


class Mapped(nn.Module):
    """A map is multiplied by what many steps make of it, a sum last: one number for each place (CSATv2)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(1, 1, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(16))

    def forward(self, x):
        rows = made = self.first(x)
        for layer in self.layers:
            made = layer(made)
        number = made.mean(1, keepdim=True)
        return x + rows * (number + self.last(number))


def test_what_multiplies_the_rows_of_a_long_part_has_a_box():
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 4, 4), Mapped(), Mapped()).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(2, 3, 20, 20)))

    chart = column.frames[0].panels[-1].chart
    named = {node.key: node.label for node in chart.nodes}
    times = "× ONE NUMBER FOR EACH PLACE"
    assert [*named.values()][-2:] == [times, "ADD"]
    given = sorted(named[edge.source] for edge in chart.edges if named[edge.target] == times)
    assert given == ["CONVOLUTION 3×3"] * 3  # the first one, what all the others make, and the last one
