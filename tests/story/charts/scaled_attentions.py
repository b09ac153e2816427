"""Small attentions whose scores are scaled, and the panel that tells of one."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


def read_panel(part, *, device="cpu"):
    model = nn.Sequential(part(), FeedForwardPart(), part(), FeedForwardPart()).eval().to(device)
    trace = xray.trace(model, torch.ones(5, 2, WIDTH, device=device))
    (column,) = read_columns(trace)
    panel = column.frames[0].panels[0]
    return xray.anatomy(trace).towers[0], panel.staging.branches[0].branch, panel.chart.nodes


class ScaledLast(nn.Module):
    """Learned numbers by distance are added to the scores, and both are divided (XLNet)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.near = nn.Embedding(9, HEADS)

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        places = torch.arange(x.shape[1])
        bias = self.near(places[:, None] - places[None, :] + 4).permute(2, 0, 1)[None]
        scores = (query @ key.transpose(-1, -2) + bias) / (WIDTH // HEADS) ** 0.5
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))
