"""A bend behind a sum through which all goes on stands with the sum, and nowhere else (ResNet)."""

import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.reading import read_passes
from xray.story.charts.stage_chart import chart_stage
from xray.story.exits.exit_chart import chart_exit
from xray.story.poster import compose_poster

WIDTH = 6


class Bent(nn.Module):
    """Two convolutions, what they make added to what they read, and all of that bent."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.two(torch.relu(self.one(x))))


class BentInside(Bent):
    """The same, with the bend on one of both ways alone."""

    def forward(self, x):
        return x + self.two(torch.relu(self.one(torch.relu(x))))


def charts_of(layer):
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 3), *(layer() for _ in range(3)), nn.Conv2d(WIDTH, 5, 1)).eval()
    (reading,) = read_passes(xray.trace(model, torch.rand(2, 3, 12, 12)))
    (tower,) = reading.towers
    return [chart_stage(reading.flow, one) for one in tower.stagings], chart_exit(reading.flow, tower, ())


def test_the_bend_stands_with_the_sum_of_every_layer_and_not_at_the_exit():
    layers, leaving = charts_of(Bent)

    assert [chart.nodes[-1].label for chart in layers] == ["ADD + ReLU"] * 3
    assert [node.label for node in leaving.nodes] == ["CONVOLUTION 1×1"]


def test_a_bend_that_one_way_alone_goes_through_does_not():
    assert [chart.nodes[-1].label for chart in charts_of(BentInside)[0]] == ["ADD"] * 3


def test_no_bend_of_the_last_layer_is_said_to_stand_in_no_box():
    layers = (*(Bent() for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 5))
    trace = xray.trace(nn.Sequential(nn.Conv2d(3, WIDTH, 3), *layers).eval(), torch.rand(2, 3, 12, 12))

    layout = compose_poster(trace, text_width)
    assert not [box for box in layout.boxes for line in box.lines for run in line if "in no box" in run.text]


class BentBehind(nn.Module):
    """Layers that bend what they read on one way alone, and a bend behind the last of them, before what comes next."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(BentInside() for _ in range(3))
        self.first, self.last = nn.Conv2d(3, WIDTH, 3), nn.Conv2d(WIDTH, 5, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(torch.relu(x))


def test_a_bend_behind_the_last_layer_that_the_others_do_not_have_stands_at_the_exit():
    (reading,) = read_passes(xray.trace(BentBehind().eval(), torch.rand(2, 3, 12, 12)))
    (tower,) = reading.towers

    assert [node.label for node in chart_exit(reading.flow, tower, ()).nodes] == ["ReLU", "CONVOLUTION 1×1"]


class Seeing(nn.Module):
    """Attention at the first rows alone, as many as are said, and a feed-forward."""

    def __init__(self, most):
        super().__init__()
        self.most, self.look = most, nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, x):
        x = x + self.look(x, x[:, : self.most], x[:, : self.most], need_weights=False)[0]
        return x + self.back(self.wide(x).relu())


class SeeingLess(nn.Module):
    """No two layers look at as many rows; a bend behind the last of them is the model's."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Seeing(most) for most in (5, 4, 3))
        self.first, self.last = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x.relu())


def test_it_does_so_where_the_layers_are_no_group_but_end_alike():
    (reading,) = read_passes(xray.trace(SeeingLess().eval(), torch.rand(2, 7, 4)))
    (tower,) = reading.towers

    assert chart_stage(reading.flow, tower.stagings[-1]).nodes[-1].label == "ADD"
    assert [node.label for node in chart_exit(reading.flow, tower, ()).nodes] == ["ReLU", "LINEAR"]
