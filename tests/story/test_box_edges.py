"""Boxes at the end of a model: their edges, half of a size around a middle, and numbers changed in place."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.exits.box_edges import EDGES
from xray.story.sheet.columns import read_columns

WIDTH = 15


class Finder(nn.Module):
    """Layers over rows, kinds of what each finds, and its edges."""

    def __init__(self, half=0.5):
        super().__init__()
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(3))
        self.kinds, self.sides, self.share = nn.Linear(WIDTH, 7), nn.Linear(WIDTH, 4), half

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.kinds(x), self.lay(*self.sides(x).sigmoid().unbind(-1))

    def lay(self, x, y, wide, high):
        across, down = self.share * wide, self.share * high
        return torch.stack([x - across, y - down, x + across, y + down], dim=-1)


class OneSided(Finder):
    """Nothing is taken off: these are no edges around a middle."""

    def lay(self, x, y, wide, high):
        across, down = self.share * wide, self.share * high
        return torch.stack([x + across, y + down, x + across, y + down], dim=-1)


class Swapped(Finder):
    """The half that is taken off one number is added to the other one."""

    def lay(self, x, y, wide, high):
        across, down = self.share * wide, self.share * high
        return torch.stack([x - across, y - down, x + down, y + across], dim=-1)


class TurnedRound(Finder):
    """A number is taken off the half of another one."""

    def lay(self, x, y, wide, high):
        across, down = self.share * wide, self.share * high
        return torch.stack([across - x, down - y, x + across, y + down], dim=-1)


class Anew(Finder):
    """Halves are worked out anew for each edge (SAM 3)."""

    def lay(self, x, y, wide, high):
        return torch.stack([x - 0.5 * wide, y - 0.5 * high, x + 0.5 * wide, y + 0.5 * high], dim=-1)


def labels_of(model):
    with torch.no_grad():
        (column,) = read_columns(xray.trace(model, torch.zeros(2, 5, WIDTH)))
    return [node.label for node in column.exit.nodes]


@pytest.mark.parametrize("model", [Finder(), Anew()], ids=["halves once", "halves anew"])
def test_edges_of_boxes_stand_in_one_box(model):
    labels = labels_of(model)

    assert labels.count(EDGES) == 1
    assert not {"÷ 2", "SUBTRACTED", "ADDED UP"}.intersection(labels)


@pytest.mark.parametrize(
    "model",
    [Finder(half=0.25), OneSided(), Swapped(), TurnedRound()],
    ids=["quarters", "one side", "swapped", "turned round"],
)
def test_what_is_no_half_of_a_size_on_both_sides_is_no_edge(model):
    assert EDGES not in labels_of(model)


class Moved(Finder):
    """Numbers of other rows are added to some of four, where these stand (Conditional DETR), or to some rows."""

    def __init__(self, *, sides=2, rows=5):
        super().__init__()
        self.points, self.moved, self.rows = nn.Linear(WIDTH, sides), sides, rows

    def forward(self, x):
        points = self.points(x[:, : self.rows])
        for layer in self.layers:
            x = layer(x)
        sides = self.sides(x)
        if self.rows < 5:
            sides[:, : self.rows] += points
        else:
            sides[..., : self.moved] += points
        return self.kinds(x), sides.sigmoid()


@pytest.mark.parametrize(
    ("sides", "rows", "told"),
    [(2, 5, "ADDED UP IN 2 OF 4 NUMBERS"), (4, 5, "ADDED UP"), (4, 3, "ADDED UP IN 3 OF 5 ROWS")],
)
def test_numbers_that_change_where_they_stand_are_told_to_be_some_of_a_row_or_of_some_rows(sides, rows, told):
    with torch.no_grad():
        (column,) = read_columns(xray.trace(Moved(sides=sides, rows=rows), torch.zeros(2, 5, WIDTH)))
    (added,) = [node for node in column.exit.nodes if node.label.startswith("ADDED UP")]

    assert (added.label, added.record.shape) == (told, (2, 5, 4))
