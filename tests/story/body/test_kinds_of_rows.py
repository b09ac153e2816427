"""Rows of two kinds, each with weights of its own: those of a sound among words (Higgs Audio V2)."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.charts.stage_chart import chart_stage

WIDTH, WIDE, SOUND = 12, 17, 7


class Kinds(nn.Module):
    """Norms before the attention of both kinds, and feed-forwards of rows that are picked, and put back."""

    def __init__(self):
        super().__init__()
        self.attend = Attention(WIDTH, 3)
        self.norms, self.sound_norms = (nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2)) for _ in range(2))
        self.think, self.sound_think = (
            nn.Sequential(nn.Linear(WIDTH, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDTH)) for _ in range(2)
        )

    def forward(self, x, sound):
        normed = x.masked_scatter(sound.unsqueeze(-1), self.sound_norms[0](x[sound]))
        normed = normed.masked_scatter(~sound.unsqueeze(-1), self.norms[0](normed[~sound]))
        x = x + self.attend(normed, normed)
        words, sounds = self.norms[1](x[~sound]), self.sound_norms[1](x[sound])
        x[~sound] += self.think(words)
        x[sound] += self.sound_think(sounds)
        return x


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(11, WIDTH), nn.ModuleList(Kinds() for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, ids == SOUND)
        return x


def test_norms_of_two_kinds_of_rows_are_one_norm_before_the_attention():
    (reading,) = read_passes(xray.trace(Mixed(), torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])))
    staging = reading.towers[0].stagings[0]
    opening, *others = (node.label for node in chart_stage(reading.flow, staging).nodes)

    assert opening == "RMS NORM, ITS OWN FOR EACH OF TWO KINDS OF ROWS"
    assert not [label for label in others if "NORM" in label or "ROWS PUT IN" in label]


def test_weights_of_rows_that_are_not_there_are_used_by_none():
    found = xray.anatomy(xray.trace(Mixed(), torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])))
    idle = 3 * (WIDTH * WIDE + WIDE + WIDE * WIDTH + WIDTH + 2 * WIDTH)

    assert sum(one.params for one in found.unused) == idle
    assert found.active_params == found.params - idle


def test_weights_of_rows_that_are_there_are_used():
    found = xray.anatomy(xray.trace(Mixed(), torch.tensor([[1, 2, SOUND, 4, 5], [5, 4, 3, 2, 1]])))

    assert found.unused == ()
