"""Layers on both sides of something that stands once between them: alike, and no one stack (a codec of sound)."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray import anatomy


class Codec(nn.Module):
    """Layers, a convolution that makes two places one, its way back, and layers again."""

    def __init__(self, pairs=2):
        super().__init__()
        self.words = nn.Embedding(19, WIDTH)
        self.before, self.behind = (
            nn.ModuleList(nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(pairs)) for _ in range(2)
        )
        self.down, self.up = nn.Conv1d(WIDTH, WIDTH, 2, 2), nn.ConvTranspose1d(WIDTH, WIDTH, 2, 2)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.before:
            x = layer(x)
        x = self.up(self.down(x.transpose(1, 2))).transpose(1, 2)
        for layer in self.behind:
            x = layer(x)
        return x


def test_layers_before_and_behind_a_break_are_told_apart():
    (tower,) = anatomy(xray.trace(Codec().eval(), torch.zeros(2, 6, dtype=torch.long))).towers

    assert [bridge.before for bridge in tower.bridges] == [2]
    assert [group.layers for group in tower.groups] == [(0, 1), (2, 3)]
