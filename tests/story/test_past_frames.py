"""What a layer gives, led past the next ones to where it is added between two (Funnel), or put beside (CANINE)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

PLACES = 9
ADDED, BESIDE = "+ WHAT LAYER 2 GAVE", "WITH WHAT LAYER 2 GAVE BESIDE IT"


class Upsampled(nn.Module):
    """Layers, pooled rows, layers, and each row repeated; what came before the pool is added, put beside, or left."""

    def __init__(self, way):
        super().__init__()
        self.given, self.way = nn.Linear(7, WIDTH), way
        self.first, self.few, self.last = (
            nn.ModuleList(nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(count))
            for count in (2, 2, 1)
        )
        self.change, self.narrow = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        x = self.given(x)
        for layer in self.first:
            x = layer(x)
        before = x
        x = functional.avg_pool2d(x[:, None], (2, 1), stride=(2, 1), ceil_mode=True)[:, 0]
        for layer in self.few:
            x = layer(x)
        x = x.repeat_interleave(2, dim=1)[:, :PLACES]
        if self.way.startswith("beside"):
            x = self.narrow(torch.cat([before if self.way == "beside" else self.change(before), x], -1))
        elif self.way:
            x = x + (before if self.way == "as it was" else self.change(before))
        for layer in self.last:
            x = layer(x)
        return x


def trace_of(way):
    return xray.trace(Upsampled(way).eval(), torch.rand(2, PLACES, 7))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("as it was", [(ADDED, 1)]),
        ("changed", []),
        ("beside", [(BESIDE, 1)]),
        ("beside, changed", []),
        ("", []),
    ],
)
def test_a_box_that_brings_in_what_a_layer_gave_says_which_one(way, told):
    (column,) = read_columns(trace_of(way))

    found = [
        (frame.bridge.node(one.key).label, one.layer)
        for frame in column.frames
        if frame.bridge is not None
        for one in frame.earlier
    ]
    assert found == told


@pytest.mark.parametrize(("way", "label"), [("as it was", ADDED), ("beside", BESIDE)])
def test_what_a_layer_gave_is_led_from_above_its_frame_to_the_box(way, label):
    poster = compose_poster(trace_of(way), text_width)

    (box,) = (box for box in poster.boxes if any(run.text == label for line in box.lines for run in line))
    ends = [curve.points for curve in poster.curves if curve.points[-1][1] == pytest.approx(box.y)]
    sideways = [points for points in ends if points[-1][0] in (box.left, box.right)]
    assert len(sideways) == 1
    assert sideways[0][0][1] < box.bottom - 40  # it begins far below, above the frame of layer 2
