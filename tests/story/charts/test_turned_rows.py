"""Rows that are turned by cosines and sines of their time before the layers: one box, and no places are added."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

TURNED = 8


class Turned(nn.Module):
    """Frames of a sound, each turned by its time, in part or whole, with layers behind (Music Flamingo)."""

    def __init__(self, count, *, added=False):
        super().__init__()
        self.count, self.added, self.frames = count, added, nn.Conv1d(5, WIDTH, 3)
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, sound):
        x = self.frames(sound).mT
        times = torch.arange(x.shape[1]) * 0.25
        angles = (times[:, None] * torch.rand(self.count // 2)).repeat_interleave(2, -1)
        if self.added:
            return self.layers(x + torch.cat([angles.sin(), angles.cos()], -1)[:, :WIDTH])
        turned, left = x[..., : self.count], x[..., self.count :]
        first, second = turned.unflatten(-1, (-1, 2)).unbind(-1)
        moved = torch.stack([-second, first], -1).flatten(-2)
        turned = turned * angles.cos() + moved * angles.sin()
        return self.layers(torch.cat([turned, left], -1) if self.count < WIDTH else turned)


def list_labels(model):
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(model, torch.rand(2, 5, 13)))
    return column.towering.tower.entrance, [node.label for node in column.entrance.nodes]


@pytest.mark.parametrize(
    ("count", "label"), [(TURNED, f"ROTATE {TURNED} OF {WIDTH} NUMBERS"), (WIDTH, "ROTATE")], ids=["in part", "whole"]
)
def test_rows_that_are_turned_are_told_so_in_one_box(count, label):
    entrance, labels = list_labels(Turned(count))

    assert labels == ["SIGNAL", "CONVOLUTION 3", label]
    assert all(part.part != "positions" for part in entrance)


def test_waves_that_are_added_to_rows_are_places_still():
    entrance, labels = list_labels(Turned(WIDTH, added=True))

    assert labels[-1] == "+ SINES OF PLACES"
    assert any(part.part == "positions" for part in entrance)
