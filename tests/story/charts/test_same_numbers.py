"""Numbers by which a layer multiplies: said of a layer that is drawn for several where all of them have them."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.charts.test_fused_heads import Fused
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Scaled(Fused):
    """A sublayer that is multiplied by a number before it is added (DiffLlama, Granite)."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x + self.attend(x) * self.factor


@pytest.mark.parametrize(
    ("factors", "told"), [((0.7, 0.7), {"× 0.7"}), ((0.7, 0.9), {"× A NUMBER OF EACH LAYER"}), ((1.5, 1.5), {"× 1.5"})]
)
def test_a_number_is_said_where_all_layers_have_it(factors, told):
    model = nn.Sequential(*(part for one in factors for part in (Scaled(one), FeedForwardPart())))
    (column,) = read_columns(xray.trace(model, torch.ones(2, 5, WIDTH)))

    labels = {node.label for frame in column.frames for panel in frame.panels for node in panel.chart.nodes}
    assert {label for label in labels if label.startswith(("× A", "× 0", "× 1"))} == told


class Divided(Scaled):
    """Branches that are divided by a number at first, and multiplied by the same one, or another, at last (LoFTR)."""

    def attend(self, x):
        return super().attend(x / 7)


@pytest.mark.parametrize(("factor", "scale"), [(7, None), (0.7, "number")])
def test_a_number_that_takes_a_division_back_scales_no_branch(factor, scale):
    model = nn.Sequential(
        nn.Linear(7, WIDTH), *(part for _ in range(2) for part in (Divided(factor), FeedForwardPart()))
    )
    (tower,) = xray.anatomy(xray.trace(model, torch.ones(2, 5, 7))).towers

    assert tower.groups[0].stages[0].scale == scale


class Hiding(nn.Module):
    """Attention that hides later places by a mask with so many axes (litgpt's Gemma 2)."""

    def __init__(self, axes):
        super().__init__()
        self.axes, self.ways = axes, nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        query, key, value = (way(x).unflatten(-1, (3, -1)).transpose(1, 2) for way in self.ways[:3])
        mask = torch.full((x.shape[1], x.shape[1]), -1e9).triu(1)
        weights = (query @ key.mT / 2 + mask.view(*(1,) * (self.axes - 2), *mask.shape)).softmax(-1)
        return x + self.ways[3]((weights @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("axes", "shown"), [((4, 4), (1, 1, 5, 5)), ((4, 2), None), ((2, 4), None)])
def test_the_shape_of_a_mask_is_said_where_all_layers_have_it(axes, shown):
    model = nn.Sequential(nn.Linear(7, WIDTH), *(part for one in axes for part in (Hiding(one), FeedForwardPart())))
    (column,) = read_columns(xray.trace(model, torch.ones(2, 5, 7)))

    nodes = [node for frame in column.frames for panel in frame.panels for node in panel.chart.nodes]
    (mask,) = (node for node in nodes if node.label == "MASK")
    assert (mask.beside and mask.beside.shape, mask.extra) == (shown, "broadcast")


class Dilated(nn.Module):
    """A convolution over places so far apart, and one of single places, added to what came in (DAC)."""

    def __init__(self, apart):
        super().__init__()
        self.wide, self.alone = nn.Conv1d(WIDTH, WIDTH, 3, padding=apart, dilation=apart), nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x):
        return x + self.alone(torch.tanh(self.wide(x)))


@pytest.mark.parametrize(
    ("apart", "told"),
    [
        ((1, 1, 1), "CONVOLUTION 3"),
        ((3, 3, 3), "CONVOLUTION 3, 3 APART"),
        ((1, 3, 9), "CONVOLUTION 3, 1 TO 9 APART"),
        ((9, 3, 3), "CONVOLUTION 3, 3 TO 9 APART"),
    ],
)
def test_how_far_apart_convolutions_read_is_said_of_all_layers(apart, told):
    model = nn.Sequential(nn.Conv1d(1, WIDTH, 7, padding=3), *map(Dilated, apart))
    trace = xray.trace(model, torch.ones(2, 1, 40))
    (column,) = read_columns(trace)

    labels = [node.label for frame in column.frames for panel in frame.panels for node in panel.chart.nodes]
    assert [label for label in labels if label.startswith("CONVOLUTION 3")] == [told]
    sentences = {"Convolutions mix places near each other.", "Each place is mixed with places near it."}
    lines = ("".join(run.text for run in line) for box in compose_poster(trace, text_width).boxes for line in box.lines)
    assert {line for line in lines if line.startswith(("Convolutions", "Each place is"))} == sentences
