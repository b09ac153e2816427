"""Groups of layers behind which a sum adds what the first began with (Swin2SR): told, and drawn behind the last."""

import torch
from story.body.test_mistaken import HEADS, WIDTH
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.beside_layers import Span
from xray.story.cards.boxless import count_unsaid, find_unsaid
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

SIDE = 5


class Layer(nn.Module):
    """Attention and a feed-forward, each normalised before it is added."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x):
        x = x + self.norms[0](self.attend(x, x, x, need_weights=False)[0])
        return x + self.norms[1](self.back(self.wide(x).relu()))


def lay_out(x):
    return x.mT.unflatten(2, (SIDE, SIDE))


class Group(nn.Module):
    """Layers, and what a convolution makes of what the last gives, added to what the first began with."""

    def __init__(self, count):
        super().__init__()
        self.layers, self.mix = nn.ModuleList(Layer() for _ in range(count)), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        began = x
        for layer in self.layers:
            x = layer(x)
        return began + self.mix(lay_out(x)).flatten(2).mT


class Restores(nn.Module):
    """An image becomes rows for groups of layers; a norm, a convolution and a sum with the first map stand behind."""

    def __init__(self, *counts):
        super().__init__()
        self.first, self.last = (nn.Conv2d(wide, WIDTH, 3, padding=1) for wide in (3, WIDTH))
        self.begin, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.groups = nn.ModuleList(map(Group, counts))

    def forward(self, image):
        first = self.first(image)
        x = self.begin(first.flatten(2).mT)
        for group in self.groups:
            x = group(x)
        return first + self.last(lay_out(self.norm(x)))


def record(*counts):
    torch.manual_seed(0)
    return xray.trace(Restores(*counts).eval(), torch.rand(2, 3, SIDE, SIDE))


def test_groups_that_a_sum_reaches_over_are_found():
    (tower,) = anatomy(record(3, 4)).towers

    assert tower.spans == (Span(0, 2, made=True), Span(3, 6, made=True))


def test_what_stands_behind_the_last_group_is_drawn_behind_the_last_layer():
    (column,) = read_columns(record(3, 3))

    assert [node.label for node in column.exit.nodes] == [
        "CONVOLUTION 3×3",
        "+ WHAT LAYER 4 BEGAN WITH",
        "LAST NORM",
        "CONVOLUTION 3×3",
        "+ WHAT THE ENTRANCE'S CONVOLUTION 3×3 GAVE",
    ]


def test_only_what_stands_between_two_layers_is_counted_there():
    layout = compose_poster(record(3, 3), text_width)
    told = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert "Groups of 3 layers: behind each" in told
    assert "Not drawn" not in told
    assert "conv2d ×" not in told.partition("in no box: ")[2]


class Weighing(Layer):
    """A layer that adds what it began with once more, each number weighed (RGT)."""

    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        return super().forward(x) + x * self.gamma


def test_a_last_layer_of_a_group_has_as_many_parameters_as_the_others():
    model = Restores(3, 3)
    for group in model.groups:
        group.layers = nn.ModuleList(Weighing() for _ in range(3))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, 3, SIDE, SIDE)))

    own = sum(one.numel() for one in Weighing().parameters())
    assert {(frame.params, *frame.more) for frame in column.frames} <= {(own, *[0] * count) for count in range(1, 7)}


def test_of_groups_between_which_nothing_is_drawn_each_step_is_told():
    model = Restores(*[3] * 8)
    for group in model.groups:
        group.layers = nn.ModuleList(Weighing() for _ in range(3))
        group.layers[0].wide, group.layers[0].back = nn.Linear(WIDTH, 19), nn.Linear(19, WIDTH)
    columns = read_columns(xray.trace(model.eval(), torch.rand(2, 3, SIDE, SIDE)))

    drawn = [node.label for frame in columns[0].frames if frame.bridge for node in frame.bridge.nodes]
    told = sum(ops["mul"] for _, ops in count_unsaid(columns, find_unsaid(columns)))
    assert ("× LEARNED NUMBERS" in drawn, told) == (False, 8 * 3)


class Hourglass(nn.Module):
    """Half as many rows for the layers in the middle, each repeated behind these and added to what came before."""

    def __init__(self, *, pooled):
        super().__init__()
        self.words, self.layers = nn.Embedding(11, WIDTH), nn.ModuleList(Layer() for _ in range(4))
        self.pooled = pooled

    def forward(self, ids):
        came = self.layers[0](self.words(ids))
        fewer = came.unflatten(1, (-1, 2)).mean(2) if self.pooled else came[:, ::2]
        for layer in self.layers[1:3]:
            fewer = layer(fewer)
        return self.layers[3](came + fewer.repeat_interleave(2, dim=1))


def test_rows_that_are_repeated_between_layers_have_a_box_and_all_stages_are_not_told_shorter():
    trace = xray.trace(Hourglass(pooled=True), torch.arange(16).view(2, 8) % 11)
    texts = [text.text for box in compose_poster(trace, text_width).boxes for line in box.lines for text in line]

    assert any("EACH OF 4 ROWS 2 TIMES" in text for text in texts)
    assert any("WHAT LAYER 1 GAVE" in text for text in texts)
    assert not any("Stages:" in text for text in texts)


def test_layers_that_begin_with_some_rows_alone_did_not_begin_with_all_that_is_added_behind_them():
    (tower,) = xray.anatomy(xray.trace(Hourglass(pooled=False), torch.arange(16).view(2, 8) % 11)).towers

    assert tower.spans == ()
