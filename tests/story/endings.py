"""A small model with an end of its own."""

import torch
from story.body.test_kept_waist import WIDTH, LatentAttention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Ends(nn.Module):
    """Two layers between an entrance and an exit of their own."""

    def __init__(self, factor=None, row=None, out=lambda x: x, *, mixes=False, choose=None):
        super().__init__()
        self.words, self.factor, self.out, self.choose = nn.Embedding(12, WIDTH), factor, out, choose
        self.row = None if row is None else nn.Parameter(torch.zeros(1, 1, WIDTH)) if row else None
        self.fixed = row is False
        self.layers = nn.Sequential(*(Layer(LatentAttention("nothing")) for _ in range(2)))
        self.head: nn.Module = nn.Linear(WIDTH, 4)
        self.mixing = nn.Conv1d(4, 1, 3, padding=1) if mixes else None

    def forward(self, ids):
        x = self.words(ids)
        if ids.dim() == 3:
            x = x.sum(dim=2)
        if self.factor is not None:
            x = x * self.factor
        if self.row is not None:
            x = torch.cat([self.row.expand(len(x), -1, -1), x], dim=1)
        if self.fixed:
            x = torch.cat([x[:, -1:], x], dim=1)
        made = self.head(self.out(self.layers(x)))
        made = made if self.choose is None else self.choose(made)
        return made if self.mixing is None else self.mixing(made.mT)


def labels_of(ids=((1, 2, 3), (4, 5, 6)), **options):
    return {label.partition("  ")[0] for label in list_labels(xray.trace(Ends(**options), torch.tensor(ids)))}


def list_labels(trace):
    """The first lines of all boxes of a poster."""
    boxes = compose_poster(trace, text_width).boxes
    return ["".join(run.text for run in box.lines[0]) for box in boxes if box.lines]
