"""Heads of queries, keys and values that one linear layer made at once: alike in name, and an arrow for each head."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Fused(nn.Module):
    """All three laid out in heads at once, then taken apart (MGP-STR, BLIP)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        three = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = three[0] @ three[1].transpose(-1, -2)
        return x + self.out((scores.softmax(-1) @ three[2]).transpose(1, 2).flatten(2))


def test_heads_of_all_three_are_called_so_and_each_has_its_arrows():
    model = nn.Sequential(Fused(), FeedForwardPart(), Fused(), FeedForwardPart()).eval()
    layout = compose_poster(xray.trace(model, torch.ones(2, 5, WIDTH)), text_width)

    named = {"".join(run.text for run in box.lines[0]): box for box in layout.boxes if box.lines}

    assert {"HEADS Q", "HEADS K", "HEADS V", "TRANSPOSE KT"} <= set(named)
    for letter in "QKV":
        box = named[f"HEADS {letter}"]
        ends = [curve.points[-1] for curve in layout.curves]
        assert sum(box.left < x < box.right and abs(y - box.bottom) < 1 for x, y in ends) == HEADS
