"""Heads of which one half is repeated to make as many as there were."""

import torch
from story.body.test_mistaken import PLACES, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.sheet.columns import read_columns

HEADS = 4


class Twice(nn.Module):
    """Attention that finds the values of each half of the heads by all of its weights (DiffLlama)."""

    def __init__(self):
        super().__init__()
        self.ways, self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = (way(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for way in self.ways)
        halves = [half.repeat(1, 2, 1, 1) for half in value.chunk(2, 1)]
        found = [functional.scaled_dot_product_attention(query, key, half).transpose(1, 2) for half in halves]
        return x + self.out(torch.cat(found, -1).flatten(2))


class InTurn(nn.Module):
    """Keys and values of two sequences in one row, cut, put end to end again, and given to four heads (Mistral)."""

    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key, self.value = (nn.Linear(WIDTH, WIDTH // 2) for _ in range(2))

    def forward(self, x):
        query = self.query(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        rows = (way(x).unflatten(-1, (HEADS // 2, -1)) for way in (self.key, self.value))
        key, value = (torch.cat(one.split([PLACES - 2, 2], dim=1), dim=1).repeat_interleave(2, 2) for one in rows)
        found = functional.scaled_dot_product_attention(query, key.transpose(1, 2), value.transpose(1, 2))
        return x + self.out(found.transpose(1, 2).flatten(2))


def list_repeats(part):
    model = nn.Sequential(*(one for _ in range(2) for one in (part(), FeedForwardPart()))).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(2, PLACES, WIDTH)))
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]
    return [label for label in labels if label.startswith("REPEAT")]


def test_a_half_that_is_repeated_is_told_to_be_one():
    assert list_repeats(Twice) == ["REPEAT HALF OF V ×2"]


def test_parts_that_are_put_together_again_before_they_are_repeated_are_the_whole():
    assert list_repeats(InTurn) == ["REPEAT K ×2", "REPEAT V ×2"]
