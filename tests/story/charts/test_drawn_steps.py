"""Which steps of a long part are drawn: norms and bends with their convolution, and all in the middle in one box."""

from itertools import pairwise

import pytest
import torch
from story.charts.entrance_operations import chart_of, labels_of, rows
from story.charts.test_operations_chart import Padded
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.steps.drawn_steps import fold_behind
from xray.story.charts.steps.operation_labels import label_step
from xray.story.sheet.columns import read_columns


class Frozen(nn.Module):
    """A norm of maps by numbers that the model holds (ResNets of detectors)."""

    def __init__(self, width):
        super().__init__()
        for name in ("weight", "bias", "mean", "spread"):
            self.register_buffer(name, torch.ones(width))

    def forward(self, x):
        scale = self.weight.reshape(1, -1, 1, 1) * (self.spread.reshape(1, -1, 1, 1) + 1e-5).rsqrt()
        return x * scale + (self.bias.reshape(1, -1, 1, 1) - self.mean.reshape(1, -1, 1, 1) * scale)


def convolve(count, norm, kinds=1):
    """So many convolutions, of so many widths in turn."""
    widths = [6 + place % kinds for place in range(count + 1)]
    return nn.Sequential(
        *(
            part
            for narrow, wide in pairwise(widths)
            for part in (nn.Conv2d(narrow, wide, 3, padding=1, bias=False), norm(wide), nn.ReLU())
        )
    )


@pytest.mark.parametrize(
    ("norm", "told"),
    [
        (nn.BatchNorm2d, "CONVOLUTION 3×3 + BATCH NORM + ReLU"),
        (Frozen, "CONVOLUTION 3×3 + SCALE AND SHIFT + ReLU"),
    ],
)
def test_many_convolutions_stand_in_a_box_each_with_norm_and_bend_and_all_in_the_middle_in_one(norm, told):
    models = [convolve(count, norm, kinds=3) for count in (12, 30)]
    few, many = (chart_of(model, torch.rand(2, 6, 7, 7)).nodes for model in models)
    own = sum(one.numel() for one in models[1][3 * 4 : 3 * 17].parameters())

    assert [node.label for node in few] == [told] * 12
    assert [node.label for node in many] == [told] * 4 + [f"{13 * (1 + told.count('+'))} MORE STEPS"] + [told] * 13
    assert many[4].extra == f"{own:,} parameters"
    assert sorted(many[4].told[0].split(", ")) == sorted(
        f"{name} × 13" for name in told.replace(" 3×3", "").split(" + ")
    )


class Beside(nn.Module):
    """Many layers; one in the middle gives what stands beside the last one's rows too (pyramids of detectors)."""

    def __init__(self, width):
        super().__init__()
        self.first, self.last = (convolve(count, nn.BatchNorm2d, kinds=3) for count in (9, 21))
        self.beside = nn.Conv2d(6, width, 1)

    def forward(self, x):
        x = self.first(x)
        return torch.cat([self.beside(x), self.last(x)], 1)


@pytest.mark.parametrize(("width", "told"), [(6, (2, 6, 7, 7)), (8, None)])
def test_a_box_of_many_steps_tells_a_shape_where_all_that_is_read_of_it_has_that(width, told):
    nodes = chart_of(Beside(width), torch.rand(2, 6, 7, 7)).nodes
    (many,) = (node for node in nodes if "MORE STEPS" in node.label)

    assert (many.record and many.record.shape) == told


class Shifted(nn.Module):
    """A linear layer to which learned numbers are added before they are bent, as steps of a state are made (Mamba)."""

    def __init__(self):
        super().__init__()
        self.layer, self.shift = nn.Linear(7, 7, bias=False), nn.Parameter(torch.rand(7))

    def forward(self, x):
        return nn.functional.softplus(self.layer(x) + self.shift.float())


def test_learned_numbers_added_between_a_layer_and_its_bend_are_counted_in_their_box():
    nodes = chart_of(nn.Sequential(*(Shifted() for _ in range(12))), rows(7)).nodes

    assert [(node.label, node.extra) for node in nodes] == 12 * [("LINEAR + SOFTPLUS", "56 parameters")]


@pytest.mark.parametrize(
    ("bend", "told"),
    [
        (functional.softplus, "SOFTPLUS"),
        (lambda x: functional.softplus(x, 1.0, 20.0), "SOFTPLUS"),
        (lambda x: functional.softplus(x, beta=2.5), "SOFTPLUS (β 2.5)"),
        (lambda x: functional.softplus(x, 3.0, 7.0), "SOFTPLUS (β 3, threshold 7)"),
        (nn.Softplus(threshold=5), "SOFTPLUS (threshold 5)"),
    ],
    ids=["plain", "as mostly", "steep", "by place", "module"],
)
def test_a_softplus_is_told_with_its_numbers_where_they_are_others_than_mostly(bend, told):
    assert labels_of(Bent(bend), rows(7)) == ["LINEAR", told]


class Bent(nn.Module):
    """What a linear layer gives, bent."""

    def __init__(self, bend):
        super().__init__()
        self.layer, self.bend = nn.Linear(7, 7), bend

    def forward(self, x):
        return self.bend(self.layer(x))


def test_rows_that_are_flipped_have_a_box():
    assert labels_of(Bent(lambda x: x.flip(1)), rows(7)) == ["LINEAR", "FLIP"]


class Halved(nn.Module):
    """A linear layer, whose half is bent, or all of it."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.linear = factor, nn.Linear(7, 7)

    def forward(self, x):
        x = self.linear(x)
        return nn.functional.leaky_relu(x if self.factor is None else x * self.factor)


@pytest.mark.parametrize(
    ("factor", "count", "told"), [(0.5, 30, ["LINEAR", "LeakyReLU"]), (None, 12, ["LINEAR + LeakyReLU"])]
)
def test_a_bend_of_what_was_multiplied_by_a_number_first_is_not_in_the_box_of_what_came_before(factor, count, told):
    labels = labels_of(nn.Sequential(*(Halved(factor) for _ in range(count))), rows(7))

    assert labels[: len(told)] == told


class Offset(nn.Module):
    """A linear layer, to whose numbers others that the model holds, and does not learn, are added before a bend."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(7, 7)
        self.register_buffer("levels", torch.arange(1.0, 8.0))

    def forward(self, x):
        return nn.functional.leaky_relu(self.linear(x) + self.levels.log())


def test_a_bend_of_a_sum_with_numbers_that_are_not_learned_is_not_in_the_box_of_what_came_before():
    labels = labels_of(nn.Sequential(*(Offset() for _ in range(30))), rows(7))

    assert not any("+" in label for label in labels)
    assert set(labels[:2]) == {"LINEAR", "LeakyReLU"}


def test_few_convolutions_have_a_box_for_each_step():
    labels = labels_of(convolve(3, nn.BatchNorm2d), torch.rand(2, 6, 7, 7))

    assert labels == ["CONVOLUTION 3×3", "BATCH NORM", "ReLU"] * 3


@pytest.mark.parametrize(
    ("added", "told"),
    [
        (lambda x: x + torch.randn_like(x) * (0.5 * torch.randn(2))[:, None, None], "+ NOISE"),
        (lambda x: x + torch.randn_like(x) * x, "ADDED UP"),
        (lambda x: x + x.tanh(), "ADDED UP"),
    ],
)
def test_numbers_drawn_by_chance_that_are_added_are_noise(added, told):
    class Noised(Padded):
        def forward(self, x, counts=None):
            return self.last(torch.cat((added(self.first(x)), x), dim=-1))

    model = Noised()
    flow = read_flow(xray.trace(model.eval(), rows()).passes[0])

    assert [label_step(flow, place) for place in range(len(flow.steps)) if flow.op(place) == "add"] == [told]


class Shortened(nn.Module):
    """A residual sum past which the stream is convolved and normed by numbers that the model holds (ResNets)."""

    def __init__(self):
        super().__init__()
        self.body, self.past = convolve(2, Frozen), nn.Sequential(nn.Conv2d(6, 6, 1), Frozen(6))

    def forward(self, x):
        return self.past(x) + self.body(x)


def test_what_the_stream_goes_through_past_a_sublayer_is_named_once():
    model = nn.Sequential(nn.Conv2d(3, 6, 1), *(Shortened() for _ in range(3)))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, 3, 7, 7)))

    (node,) = (node for node in column.frames[0].panels[0].chart.nodes if node.key == "add")
    assert node.told == ("the stream comes by through convolution 1×1, scale and shift",)


class Conditions(nn.Module):
    """Three rows that the model holds, each led through a layer, are added up and stand for one word (Gradium)."""

    def __init__(self):
        super().__init__()
        self.words, self.speakers = nn.Embedding(31, 11), nn.Embedding(5, 3)
        self.begin, self.length = nn.Parameter(torch.rand(7)), nn.Parameter(torch.rand(13))
        self.first, self.second, self.third = nn.Linear(7, 11), nn.Linear(3, 11), nn.Linear(13, 11)
        self.last = nn.Linear(11, 11)

    def forward(self, ids):
        others = self.second(self.speakers(torch.tensor(1))) + self.third(self.length.cos())
        given = self.first(self.begin) + others
        return self.last(torch.where((ids == 4).unsqueeze(-1), given, self.words(ids)))


def test_what_layers_make_of_rows_that_the_model_holds_is_added_up_before_it_is_chosen():
    chart = chart_of(Conditions(), torch.arange(10).reshape(2, 5))
    labels = {node.key: node.label for node in chart.nodes}
    ways = sorted((labels[edge.source], labels[edge.target]) for edge in chart.edges)

    assert [way for way in ways if way[1] == "ADDED UP"] == [("ADDED UP", "ADDED UP")] + 3 * [("LINEAR", "ADDED UP")]
    assert [source for source, target in ways if target == "ONE OR THE OTHER"] == ["ADDED UP", "LOOK UP"]


class Handing(nn.Module):
    """Convolutions, each with a bend; what the last but one gives is handed out before it is bent."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(6, 6 + (place == 11), 3, padding=1) for place in range(12))

    def forward(self, x):
        for layer in self.layers[:-1]:
            handed = layer(x)
            x = handed.relu()
        return self.layers[-1](x).relu(), handed


def test_what_is_handed_out_before_it_is_bent_ends_its_box():
    labels = [node.label for node in chart_of(Handing(), torch.rand(2, 6, 7, 7)).nodes]

    bent = "CONVOLUTION 3×3 + ReLU"
    assert labels[-3:] == ["CONVOLUTION 3×3", "ReLU", bent]
    assert set(labels[:-3]) == {bent}


class OneOfTwo(nn.Module):
    """One of two learned rows is added to what a layer makes (SRT's cameras)."""

    def __init__(self):
        super().__init__()
        self.one, self.other = (nn.Parameter(torch.rand(1, 1, 6)) for _ in range(2))
        self.lay = nn.Linear(6, 6)

    def forward(self, x):
        which = torch.ones(2, 1, 1)
        return self.lay(x) + (which * self.one + (1 - which) * self.other)


def test_a_sum_with_learned_rows_that_have_a_box_of_their_own_stands_in_no_other_box():
    flow = read_flow(xray.trace(OneOfTwo().eval(), torch.rand(2, 5, 6)).passes[0])
    drawn = [one for one in range(len(flow.steps)) if flow.op(one) in ("add", "linear")]

    assert fold_behind(flow, {one: (one,) for one in drawn}) == {}
