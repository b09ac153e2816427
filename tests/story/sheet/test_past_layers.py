"""What goes past a layer's own sublayers and joins their rows behind it is said to stand in no box."""

import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import Reader
from story.body.test_stacks import Messaged
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.sheet.columns import read_columns

WIDTH, ASKING, LAYERS = 15, 4, 3


class Halves(nn.Module):
    """Layers in which the first rows go through one feed-forward, the others through another one (InstructBLIP)."""

    def __init__(self):
        super().__init__()
        self.bring = nn.Linear(7, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(LAYERS))
        self.others = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH)) for _ in range(LAYERS)
        )

    def forward(self, rows):
        x = self.bring(rows)
        for layer, other in zip(self.layers, self.others, strict=True):
            x = layer.three(x + layer.one(x, x))
            asking, rest = x[:, :ASKING], x[:, ASKING:]
            asking = layer.four(asking + layer.two(asking))
            x = torch.cat([asking, other(rest)], dim=1)
        return x[:, :ASKING]


class Bent(nn.Module):
    """Layers whose sums are bent by a ReLU, which stands in the box of the sum (ResNet)."""

    def __init__(self):
        super().__init__()
        self.bring = nn.Linear(7, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(LAYERS))

    def forward(self, rows):
        x = self.bring(rows)
        for layer in self.layers:
            x = layer(x).relu()
        return x


class Weighed(nn.Module):
    """Layers that shift and multiply the stream by learned numbers before they add to it (Zaya)."""

    def __init__(self):
        super().__init__()
        self.bring = nn.Linear(7, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(LAYERS))
        self.shares = nn.ParameterList(torch.rand(WIDTH) for _ in range(2 * LAYERS))
        self.shift = nn.Parameter(torch.rand(WIDTH))

    def forward(self, rows):
        x = self.bring(rows)
        for place, layer in enumerate(self.layers):
            y = layer.three(x)
            x = layer.one(y, y) + (x + self.shift) * self.shares[2 * place]
            x = layer.two(layer.four(x)) + (x + self.shift) * self.shares[2 * place + 1]
        return x


def find_unsaid(model):
    return dict(list_unsaid(read_columns(xray.trace(model.eval(), torch.rand(2, 9, 7)))))


def test_rows_that_go_through_a_sublayer_of_their_own_beside_a_layers_are_told_there():
    (tower,) = xray.anatomy(xray.trace(Halves().eval(), torch.rand(2, 9, 7))).towers

    assert [[one.part for one in stage.others or ()] for stage in tower.groups[0].stages] == [[], ["feed_forward"]]
    assert "between layers" not in find_unsaid(Halves())


def test_what_bends_the_stream_itself_is_none_of_these():
    assert "between layers" not in find_unsaid(Bent())


def test_a_message_that_stands_in_the_box_of_its_layer_is_none_of_these():
    assert "between layers" not in find_unsaid(Reader(Messaged(), Messaged(), Messaged()))


def test_what_a_layer_of_many_multiplies_the_stream_by_is_within_it_and_none_of_these():
    assert "between layers" not in find_unsaid(Weighed())
