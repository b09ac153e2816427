"""A stream that goes on with rows of another kind, which look at those that it had before (GroupViT)."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.anatomy.branches import FORMER_ROWS
from xray.story.anatomy.branches import Attention as Attended

WIDTH, PLACES, GROUPS, FEWER = 15, 11, 5, 3


class Asking(nn.Module):
    """Rows ask others, and think about what they found."""

    def __init__(self):
        super().__init__()
        self.attention, self.norm = Attention(WIDTH, 3), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))

    def forward(self, x, others):
        x = x + self.attention(x, others)
        return x + self.think(self.norm(x))


class Grouped(nn.Module):
    """Learned rows stand behind those of places; a few are made of them, ask the places, and go on alone."""

    def __init__(self):
        super().__init__()
        self.words, self.groups = nn.Embedding(31, WIDTH), nn.Parameter(torch.randn(1, GROUPS, WIDTH))
        self.before, self.behind = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)) for _ in range(2)
        )
        self.of_groups, self.of_places, self.last = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.fewer, self.asking = nn.Linear(GROUPS, FEWER), Asking()

    def forward(self, ids):
        x = torch.cat([self.words(ids), self.groups.expand(len(ids), -1, -1)], dim=1)
        for layer in self.before:
            x = layer(x)
        places, groups = self.of_places(x[:, :PLACES]), self.of_groups(x[:, PLACES:])
        x = self.asking(self.last(self.fewer(groups.mT).mT), places)
        for layer in self.behind:
            x = layer(x)
        return x


def test_rows_that_are_made_anew_look_at_former_rows_and_make_no_decoder():
    (tower,) = xray.anatomy(xray.trace(Grouped().eval(), torch.arange(22).view(2, PLACES))).towers

    sources = [one.source for group in tower.groups for one in group.stages[0].branches if isinstance(one, Attended)]
    assert sources == ["self", FORMER_ROWS, "self"]
    assert tower.name == "text"
