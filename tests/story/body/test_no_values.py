"""What a softmax weighs is no value where weights alone made it, or where its own scores gathered it before."""

from functools import partial

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage

PLACES, EXPERTS, SLOTS, HEADS = 8, 2, 3, 2


class Inverted(nn.Module):
    """Three softmaxes of queries, keys and means of them; an inverse of the middle one is approached (Nyström)."""

    def __init__(self):
        super().__init__()
        self.norm, self.lead, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        cut = self.lead(self.norm(x)).view(*x.shape[:2], 3, HEADS, -1)
        query, key, value = cut.permute(2, 0, 3, 1, 4).unbind(0)
        few_queries, few_keys = (one.unflatten(2, (-1, 2)).sum(3) / 2 for one in (query, key))
        first, middle, last = (
            torch.einsum("bhid,bhjd->bhij", one, other).softmax(-1)
            for one, other in ((query, few_keys), (few_queries, few_keys), (few_queries, key))
        )
        return x + self.back(self.meet(first, middle, last, value).transpose(1, 2).reshape(x.shape))

    def meet(self, first, middle, last, value):
        inverse = middle.mT / middle.sum(-1).max()
        for _ in range(2):
            inverse = inverse @ (2 * torch.eye(PLACES // 2) - middle @ inverse)
        return (first @ inverse) @ (last @ value)


class Spread(Inverted):
    """What few queries found is spread over all: those are values that were looked up."""

    def meet(self, first, middle, last, value):
        return first @ (last @ value)


class Slotted(nn.Module):
    """Slots gather rows by the scores of learned slots, and give what experts made of them back by the same ones."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.slots = nn.Parameter(torch.rand(EXPERTS, SLOTS, WIDTH))
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, x):
        y = self.norm(x)
        scores = torch.einsum("bnd,esd->bnes", y, nn.functional.normalize(self.slots, dim=-1))
        gathered = torch.einsum("bnd,bnes->besd", y, scores.softmax(1))
        made = torch.stack([one(rows) for one, rows in zip(self.experts, gathered.unbind(1), strict=True)], 1)
        return x + torch.einsum("bsd,bns->bnd", made.flatten(1, 2), scores.flatten(2).softmax(-1))


class Windowed(nn.Module):
    """A row for each window looks at its places, and what windows found is mixed among these by those rows (SepViT).

    A convolution of one place gives queries, keys and values in columns. Windows that are one alone are not mixed.
    """

    def __init__(self, window=2):
        super().__init__()
        self.window, self.row = window, nn.Parameter(torch.rand(WIDTH))
        self.norm, self.lead = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, 3 * WIDTH, 1)
        self.pair, self.back = nn.Linear(WIDTH // HEADS, 2 * (WIDTH // HEADS)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        cut = self.norm(x).reshape(-1, self.window, WIDTH).mT
        joined = torch.cat([self.row[:, None].expand(len(cut), -1, 1), cut], -1)
        query, key, value = (one.unflatten(1, (HEADS, -1)).mT for one in self.lead(joined).chunk(3, 1))
        found = torch.einsum("bhid,bhjd->bhij", query, key).softmax(-1) @ value
        rows, found = (one.unflatten(0, (len(x), -1)).transpose(1, 2) for one in (found[:, :, 0], found[:, :, 1:]))
        if found.shape[2] > 1:
            query, key = self.pair(rows).chunk(2, -1)
            found = torch.einsum("bhij,bhjnd->bhind", (query @ key.mT).softmax(-1), found)
        return x + self.back(found.permute(0, 2, 3, 1, 4).reshape(x.shape))


class Decoupled(nn.Module):
    """Places look along columns at what they found along rows; the first softmax is that of the columns (Anchor DETR).

    Heads lie in one axis with the sequences.
    """

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.by_row, self.by_column, self.row, self.column, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(5))

    def cut(self, rows):
        return rows.unflatten(-1, (HEADS, -1)).movedim(-2, 1).flatten(0, 1)

    def forward(self, x):
        rows = self.norm(x)
        laid = rows.unflatten(1, (2, PLACES // 2))
        asking = [self.cut(one(rows)) for one in (self.by_column, self.by_row)]
        asked = [self.cut(one(laid).mean(axis)) for one, axis in ((self.column, 2), (self.row, 1))]
        columns, lines = ((one @ other.mT * 3**-0.5).softmax(-1) for one, other in zip(asking, asked, strict=True))
        value = self.cut(self.value(laid))
        found = (lines @ value.transpose(1, 2).flatten(2)).unflatten(2, (2, -1))
        found = (columns.unsqueeze(2) @ found).squeeze(2).unflatten(0, (-1, HEADS)).transpose(1, 2)
        return x + self.out(found.flatten(2))


def read_kinds(part):
    """What the branches of a model are that has layers of one such part and a plain attention."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(one for _ in range(3) for one in (AttentionPart(), part())))
    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(2, PLACES, WIDTH))).towers
    return {type(branch).__name__ for branch in tower.branches}


@pytest.mark.parametrize(
    ("part", "told"),
    [(Inverted, "Unknown"), (Slotted, "Unknown"), (Spread, "Attention"), (Windowed, "Unknown"), (Decoupled, "Unknown")],
)
def test_what_weights_alone_made_or_the_same_scores_gathered_is_no_value(part, told):
    assert read_kinds(part) == {"Attention", told}


def test_keys_that_a_convolution_gave_in_columns_are_laid_in_rows_as_heads():
    assert read_kinds(partial(Windowed, PLACES)) == {"Attention"}
    trace = xray.trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), Windowed(PLACES)).eval(), torch.rand(2, PLACES, WIDTH))
    (forward,) = trace.passes
    shapes = {
        node.label: node.record.shape
        for node in chart_stage(read_flow(forward), read_pass(forward).towers[0].stagings[0]).nodes
    }

    assert shapes["HEADS K"] == shapes["HEADS Q"] == (2, HEADS, PLACES + 1, WIDTH // HEADS)
    assert "TRANSPOSE K^T" not in shapes
