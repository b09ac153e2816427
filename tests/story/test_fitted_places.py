"""Learned places that are made as large as the picture: resized, or repeated side by side (SAM 2)."""

import pytest
import torch
from story.test_entrance_boxes import WIDTH, labels_of, make_layers, read
from torch import nn
from torch.nn import functional

SIDE = 12


class Fitted(nn.Module):
    """Patches of a picture, with a table for the whole of it and one for each of its windows."""

    def __init__(self, *tables):
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, WIDTH, 2, stride=2), make_layers(WIDTH, 3)
        self.tables = nn.ParameterList(torch.rand(1, WIDTH, side, side) for side in tables)

    def fit(self, table):
        side = table.shape[-1]
        if SIDE % side:
            return functional.interpolate(table, size=(SIDE, SIDE))
        return table.tile(1, 1, SIDE // side, SIDE // side)

    def forward(self, picture):
        first, *others = (self.fit(table).flatten(2).mT for table in self.tables)
        x = self.patches(picture).flatten(2).mT + sum(others, first)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ((5, 4), "+ LEARNED PLACES: 5×5 RESIZED, 4×4 REPEATED"),
        ((5,), "+ LEARNED PLACES: 5×5 RESIZED"),
        ((4,), "+ LEARNED PLACES: 4×4 REPEATED"),
        ((SIDE,), "+ LEARNED PLACES"),
    ],
)
def test_it_is_told_how_tables_are_made_as_large_as_the_picture(tables, told):
    _, chart = read(lambda: Fitted(*tables), torch.rand(2, 3, 2 * SIDE, 2 * SIDE))

    assert [label for label in labels_of(chart) if "PLACES" in label] == [told]
