"""What works around the layers of a tower and stands in no box is named, and what others of a list are unused."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import list_around, list_unsaid
from xray.story.sheet.shares import list_idle


class Layer(nn.Module):
    """Attention whose queries and keys have places added, and a feed-forward."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 1, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 50), nn.Linear(50, WIDTH)

    def forward(self, x, places):
        seen = self.first(x)
        x = x + self.attend(seen + places, seen + places, seen, need_weights=False)[0]
        return x + self.down(self.up(self.second(x)).relu())


class Placed(nn.Module):
    """Two linear layers make places of given points, one time for all layers."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(12, WIDTH), nn.Linear(WIDTH, 12)
        self.place = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, ids, points):
        x, places = self.words(ids), self.place(points)
        for layer in self.layers:
            x = layer(x, places)
        return self.head(x)


def test_what_makes_places_for_all_layers_and_stands_in_no_box_is_named():
    trace = xray.trace(Placed().eval(), torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.rand(2, 3, 5))
    columns = read_columns(trace)

    assert [one.path for one in list_around(columns)] == ["place"]
    assert dict(list_unsaid(columns))["around layers"] == {"linear": 2, "tanh": 1}
    layout = compose_poster(trace, text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)
    assert "Not drawn, with parameters: place (" in text


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        ({"heads.0"}, "unused: 2 of 3 heads.*"),
        ({"heads.0", "heads.3"}, "unused: 2 of 4 heads.*"),
        (set(), "unused: heads.*"),
        ({"tails.0"}, "unused: heads.*"),
    ],
)
def test_of_parts_alike_it_is_said_how_many_are_unused_where_others_ran(ran, told):
    assert list(list_idle("unused", {"heads.1": 4, "heads.2": 4}, ran)) == [(told, "card", 8)]
