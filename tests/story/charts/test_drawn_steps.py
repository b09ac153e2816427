"""Which steps of a long part are drawn: norms and bends with their convolution, and all in the middle in one box."""

import pytest
import torch
from story.charts.test_operations_chart import Padded, chart_of, labels_of, rows
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.operation_labels import label_step
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


def convolve(count, norm):
    return nn.Sequential(
        *(part for _ in range(count) for part in (nn.Conv2d(6, 6, 3, padding=1, bias=False), norm(6), nn.ReLU()))
    )


@pytest.mark.parametrize(
    ("norm", "told", "own"),
    [
        (nn.BatchNorm2d, "CONVOLUTION 3×3 + BATCH NORM + ReLU", 336),
        (Frozen, "CONVOLUTION 3×3 + SCALE AND SHIFT + ReLU", 324),
    ],
)
def test_many_convolutions_stand_in_a_box_each_with_norm_and_bend_and_all_in_the_middle_in_one(norm, told, own):
    few, many = (chart_of(convolve(count, norm), torch.rand(2, 6, 7, 7)).nodes for count in (12, 30))

    assert [node.label for node in few] == [told] * 12
    assert [node.label for node in many] == [told] * 4 + [f"{15 * (1 + told.count('+'))} MORE STEPS"] + [told] * 11
    assert many[4].extra == f"{15 * own:,} parameters"


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
