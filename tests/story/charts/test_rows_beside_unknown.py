"""Branches that are not known, and put rows of a tower before beside their own: attention whose keys mix."""

import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

PLACES = 7


class Mixing(nn.Module):
    """One row looks at itself and others, and its scores for all of these are mixed before and behind softmax."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.before, self.behind = (nn.Parameter(torch.randn(1 + PLACES, 1 + PLACES)) for _ in range(2))

    def forward(self, x, others):
        rows = self.norm(x)
        parts = (self.q(rows), *self.kv(torch.cat([rows, others], dim=1)).chunk(2, -1))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        scores = torch.einsum("bhij,jk->bhik", query @ key.mT, self.before).softmax(-1)
        found = torch.einsum("bhij,jk->bhik", scores, self.behind) @ value
        return x + self.out(found.transpose(1, 2).flatten(2))


class Classes(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(5, WIDTH), FeedForwardPart(), FeedForwardPart())
        self.row, self.looking = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.ModuleList(Mixing() for _ in range(2))
        self.thinking = nn.ModuleList(FeedForwardPart() for _ in range(2))

    def forward(self, given):
        rows, x = self.rows(given), self.row.expand(len(given), -1, -1)
        for look, think in zip(self.looking, self.thinking, strict=True):
            x = think(look(x, rows))
        return x


def test_rows_that_a_branch_puts_others_beside_have_a_box():
    column = read_columns(xray.trace(Classes().eval(), torch.rand(BATCH, PLACES, 5)))[-1]
    chart = column.frames[0].panels[0].chart
    (join,) = (node for node in chart.nodes if node.label.startswith("END TO END"))
    fed = [chart.node(edge.target).label for edge in chart.edges if edge.source == join.key]

    assert (join.label, join.record.shape) == (f"END TO END: 1 + {PLACES}", (BATCH, 1 + PLACES, WIDTH))
    assert fed == ["LINEAR"]
