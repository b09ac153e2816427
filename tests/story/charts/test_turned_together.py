"""Queries and keys that are turned in one step, heads of both side by side, have one box for it."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

PLACES, D_K = 5, 4


class Together(nn.Module):
    """Attention by one linear layer, whose queries and keys are laid end to end, turned, and cut apart (Raven)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * HEADS * D_K), nn.Linear(HEADS * D_K, WIDTH)
        angles = torch.arange(PLACES)[:, None] * 0.1 ** torch.arange(D_K // 2)
        self.register_buffer("cos", angles.cos()[None, :, None], persistent=False)
        self.register_buffer("sin", angles.sin()[None, :, None], persistent=False)

    def forward(self, x):
        query, key, value = (one.unflatten(-1, (HEADS, D_K)) for one in self.qkv(x).chunk(3, -1))
        left, right = torch.cat([query, key], 2).chunk(2, -1)
        both = torch.cat([left * self.cos - right * self.sin, right * self.cos + left * self.sin], -1)
        query, key = (one.transpose(1, 2) for one in both.split(HEADS, 2))
        weights = (query @ key.mT / D_K**0.5).softmax(-1)
        return x + self.out((weights @ value.transpose(1, 2)).transpose(1, 2).flatten(2))


def test_queries_and_keys_that_are_turned_at_once_have_one_box():
    parts = (part for _ in range(2) for part in (Together(), FeedForwardPart()))
    (column,) = read_columns(xray.trace(nn.Sequential(*parts).eval(), torch.rand(2, PLACES, WIDTH)))
    nodes = column.frames[0].panels[0].chart.nodes

    drawn = [step.id for node in nodes for step in node.steps]
    assert {"JOIN Q, K", "ROTATE Q, K"} <= {node.label for node in nodes}
    assert len(drawn) == len(set(drawn))


class InPlace(Together):
    """Attention whose queries and keys are turned where they stand, beside the values (Pyramid Flow)."""

    def forward(self, x):
        rows = torch.stack([one.unflatten(-1, (HEADS, D_K)) for one in self.qkv(x).chunk(3, -1)], 2)
        left, right = rows[:, :, :2].chunk(2, -1)
        cos, sin = self.cos[:, :, None], self.sin[:, :, None]
        turned = torch.cat([left * cos - right * sin, right * cos + left * sin], -1)
        rows[:, :, 0], rows[:, :, 1] = turned[:, :, 0], turned[:, :, 1]
        query, key, value = (one.transpose(1, 2) for one in rows.unbind(2))
        weights = (query @ key.mT / D_K**0.5).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


def test_values_that_stand_beside_what_is_turned_are_not_said_to_be_turned():
    parts = (part for _ in range(2) for part in (InPlace(), FeedForwardPart()))
    (column,) = read_columns(xray.trace(nn.Sequential(*parts).eval(), torch.rand(2, PLACES, WIDTH)))
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert [label for label in labels if "ROTATE" in label] == ["ROTATE A PART OF Q, K, V"]
