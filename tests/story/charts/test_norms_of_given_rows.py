"""Rows that came in are put in front of a layer's own, and both normalised (Transformer-XL with the norms first)."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

KEPT, PLACES, WIDTH = 4, 7, 15


class Remembers(Layer):
    """A layer that looks at rows given to it too; their norm is that of its own."""

    def __init__(self):
        super().__init__(WIDTH, Attention(WIDTH, 3), norm="before")

    def forward(self, x, memory=None, mask=None):
        both = self.three(torch.cat([memory, x], 1))
        x = x + self.one(both[:, -PLACES:], both)
        return x + self.two(self.four(x))


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(11, WIDTH), nn.ModuleList(Remembers() for _ in range(2))
        self.head = nn.Linear(WIDTH, 11)

    def forward(self, ids, *memories):
        x = self.words(ids)
        for layer, memory in zip(self.layers, memories or [x.new_empty(0)] * 2, strict=True):
            x = layer(x, memory)
        return self.head(x)


def list_words(*memories):
    layout = compose_poster(xray.trace(Remembering(), torch.arange(2 * PLACES).view(2, -1) % 11, *memories), text_width)
    return ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]


@pytest.mark.parametrize("told", [["GIVEN ROWS PUT IN FRONT"], []])
def test_the_norm_of_rows_put_in_front_and_of_the_own_has_a_box_and_so_have_these_where_there_are_any(told):
    words = list_words(*[torch.rand(2, KEPT, WIDTH) for _ in told * 2])

    boxes = [one for one in words if one.isupper() or "NORM" in one]
    begin = boxes.index("LAYER INPUT")
    assert boxes[begin + 1 : begin + 2 + len(told)] == [*told, f"LAYER NORM  {2 * WIDTH} parameters"]
    assert not any("in no box" in one or "Not drawn" in one for one in words)
