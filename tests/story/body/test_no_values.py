"""What a softmax weighs is no value where weights alone made it, or where its own scores gathered it before."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart
from torch import nn

import xray

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


def read_kinds(part):
    """What the branches of a model are that has layers of one such part and a plain attention."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(one for _ in range(3) for one in (AttentionPart(), part())))
    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(2, PLACES, WIDTH))).towers
    return {type(branch).__name__ for branch in tower.branches}


@pytest.mark.parametrize(
    ("part", "told"),
    [(Inverted, "Unknown"), (Slotted, "Unknown"), (Spread, "Attention")],
)
def test_what_weights_alone_made_or_the_same_scores_gathered_is_no_value(part, told):
    assert read_kinds(part) == {"Attention", told}
