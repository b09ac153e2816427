"""The square of an attention: what scores go through is told in the box before which it stands."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Capped(nn.Module):
    """Scores that cannot pass a number which the model holds (Gemma 3n's ear)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("cap", torch.tensor(50.0, dtype=torch.float64))

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        cap = self.cap.to(x.dtype)
        scores = torch.tanh(query @ key.transpose(-1, -2) / cap) * cap
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_a_cap_by_a_number_that_is_held_is_told_beside_the_softmax():
    model = nn.Sequential(Capped(), FeedForwardPart(), Capped(), FeedForwardPart())
    (column,) = read_columns(xray.trace(model.eval(), torch.ones(2, 5, WIDTH)))

    nodes = {node.key: node for node in column.frames[0].panels[0].chart.nodes}

    assert nodes["softmax"].extra == "capped by tanh, at a number that is held"
    assert nodes["scores"].label == "SCORES Q·K^T"
