"""A table that a layer holds, and that is looked up once for all of them outside of it, counts with no layer (UDOP)."""

import torch
from handwritten import Layer
from story.sheet.test_shared_tables import HEADS, PLACES, WIDTH, Biased
from torch import nn

import xray
from xray.story.facts.unused import find_unworked
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_frames


class Around(nn.Module):
    """Layers that add one bias to their scores; the first one holds its table too, if they are tied."""

    def __init__(self, *, tied):
        super().__init__()
        self.words, rows = nn.Embedding(31, WIDTH), 2 * PLACES - 1
        self.layers = nn.ModuleList(Layer(WIDTH, Biased(WIDTH, HEADS), norm="before") for _ in range(3))
        self.table = nn.Embedding(rows, HEADS)
        if tied:
            self.layers[0].one.table = nn.Embedding(rows, HEADS)  # type: ignore[union-attr]
            self.table.weight = self.layers[0].one.table.weight  # type: ignore[union-attr]

    def forward(self, ids):
        x, far = self.words(ids), torch.arange(PLACES)
        bias = self.table(far[:, None] - far + PLACES - 1).permute(2, 0, 1)[None]
        for layer in self.layers:
            x = layer(x, mask=bias)
        return x


def count_layers(model):
    trace = xray.trace(model.eval(), torch.arange(2 * PLACES).view(2, PLACES))
    (column,) = read_columns(trace)
    frames = count_frames(column.reading, column.towering, column.frames, find_unworked(trace))
    return [(one.params, one.more, [panel.params for panel in one.panels]) for one in frames]


def test_a_table_that_a_layer_holds_and_that_runs_around_all_of_them_is_counted_in_none():
    assert count_layers(Around(tied=True)) == count_layers(Around(tied=False))
