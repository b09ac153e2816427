"""A stream that begins as rows of a table: they are learned rows, and no places that are added to anything."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.sentences.of_ends import describe_entrance
from xray.story.sheet.columns import read_columns

ROWS, HELD = 7, 11


class Begun(nn.Module):
    """Layers whose stream begins as rows of a table, or as these added to what is given."""

    def __init__(self, rows, *, added):
        super().__init__()
        self.places, self.added = nn.Embedding(rows, WIDTH), added
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(4)))

    def forward(self, given):
        rows = self.places(torch.arange(ROWS)[None].expand(len(given), -1))
        return self.layers(rows + given if self.added else rows) + given.mean()


def read(rows, *, added):
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(Begun(rows, added=added).eval(), torch.randn(2, ROWS, WIDTH)))
    return column


@pytest.mark.parametrize("held", [ROWS, HELD])
def test_rows_of_a_table_to_which_nothing_is_added_are_learned_rows(held):
    column = read(held, added=False)

    (box,) = column.entrance.nodes
    assert column.towering.tower.entrance == (EntrancePart("learned rows", ROWS, learned=True),)
    assert (box.label, box.extra) == (f"{ROWS} LEARNED ROWS", f"{held * WIDTH} parameters")
    assert describe_entrance(column.towering.tower) == f"{ROWS} learned rows go in."


def test_rows_of_a_table_that_are_added_are_places():
    parts = [part.part for part in read(ROWS, added=True).towering.tower.entrance]
    assert "positions" in parts
    assert "learned rows" not in parts
