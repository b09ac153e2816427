"""Rows that are put among others between two layers of a tower."""

import torch
from handwritten import Attention, Layer
from story.body.arrows import list_unproven
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Packed(nn.Module):
    """Layers over a text, behind which its rows stand among those of a film, in layers over all (MiniMax H3)."""

    def __init__(self):
        super().__init__()
        self.words, self.film = nn.Linear(7, 12), nn.Linear(5, 12)
        self.refine, self.layers = (
            nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in range(count)) for count in (2, 4)
        )

    def forward(self, text, film, text_places, film_places):
        x, seen = self.words(text), self.film(film)
        for layer in self.refine:
            x = layer(x)
        rows = x.new_zeros(x.shape[0], x.shape[1] + seen.shape[1], x.shape[2])
        x = rows.index_copy(1, text_places, x).index_copy(1, film_places, seen)
        for layer in self.layers:
            x = layer(x)
        return x


def test_rows_that_are_put_among_others_between_layers_have_boxes_with_what_makes_the_others():
    given = torch.rand(2, 6, 7), torch.rand(2, 9, 5), torch.arange(6), torch.arange(6, 15)
    (column,) = read_columns(xray.trace(Packed(), *given))

    (bridge,) = (frame.bridge for frame in column.frames if frame.bridge is not None)
    assert sorted(node.label for node in bridge.nodes) == ["LINEAR", "ROWS PUT IN", "ROWS PUT IN"]
    assert len(bridge.feet) == 1
    assert list_unproven([column]) == []
