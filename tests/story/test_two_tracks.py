"""A row of each sequence that looks at rows of its own track, to each of which it is added before (ProteinBERT)."""

import torch
from handwritten import Attention
from printed import words_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, WORDS, NOTES = 15, 31, 11


class TwoTracks(nn.Module):
    """Rows of places are mixed with their neighbours, and one row of the whole is added to each; that looks at them."""

    def __init__(self):
        super().__init__()
        self.near = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.spread, self.near_norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.look, self.whole_norm = Attention(WIDTH, 3), nn.LayerNorm(WIDTH)

    def forward(self, places, whole):
        mixed = places + self.near(places.transpose(1, 2)).transpose(1, 2)
        places = self.near_norm(mixed + self.spread(whole))
        return places, self.whole_norm(whole + self.look(whole, places))


class Protein(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.notes = nn.Embedding(WORDS, WIDTH), nn.Linear(NOTES, WIDTH)
        self.layers = nn.ModuleList(TwoTracks() for _ in range(3))

    def forward(self, ids, notes):
        places, whole = self.words(ids), self.notes(notes)[:, None]
        for layer in self.layers:
            places, whole = layer(places, whole)
        return places, whole


def test_a_row_that_is_added_to_those_of_another_track_does_not_look_at_itself():
    trace = xray.trace(Protein().eval(), torch.randint(0, WORDS, (2, 7)), torch.randn(2, NOTES))

    anatomy = xray.anatomy(trace)
    told = words_of(compose_poster(trace, text_width))

    assert [(tower.name, tower.layers) for tower in anatomy.towers] == [("stack", 3)]
    assert "Every place looks at every other." not in told
    assert "Keys and values come from another tensor." in told
