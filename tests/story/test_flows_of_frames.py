"""Flows between two frames, begun with zeros and made finer level by level, both frames read at each (VRT's SpyNet)."""

import pytest
import torch
from printed import lines_of
from torch import nn
from torch.nn.functional import avg_pool2d, interpolate

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Flows(nn.Module):
    """Each level adds to the flow of the one before, twice as wide and twice as far; the same levels once each way."""

    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 2, 3, padding=1)) for _ in range(3)
        )

    def flow(self, one, other):
        made = one.new_zeros(len(one), 2, 1, 1)
        for number, level in enumerate(self.levels):
            made = interpolate(made, scale_factor=2.0, mode="bilinear", align_corners=True) * 2.0
            read = [avg_pool2d(frame, 2 ** (2 - number)) for frame in (one, other)]
            made = level(torch.cat([*read, made], 1)) + made
        return made

    def forward(self, one, other):
        return self.flow(one, other), self.flow(other, one)


@pytest.fixture(scope="module")
def told():
    trace = xray.trace(Flows().eval(), torch.rand(2, 3, 8, 8), torch.rand(2, 3, 8, 8))
    return " ".join(lines_of(compose_poster(trace, text_width)))


def test_the_root_of_a_pictures_width_is_no_root_of_d_model(told):
    assert "× 2" in told
    assert "√" not in told


def test_blocks_that_run_again_are_not_said_to_add_nothing(told):
    assert "add nothing" not in told


def test_frames_that_layers_read_come_in(told):
    assert "It begins with the model's own numbers" not in told
