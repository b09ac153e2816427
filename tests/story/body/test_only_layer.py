"""A list of one layer, whose sublayers stand in a list of their own: one layer of all of these."""

import torch
from torch import nn

import xray

BATCH, ROWS, ASKED, HEADS, WIDTH, WIDER = 2, 5, 7, 3, 33, 41


class Sublayer(nn.Module):
    """What something makes of normed rows, added to these."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, made):
        return x + made(self.norm(x))


class Looking(nn.Module):
    """Attention of some rows to others."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, asked):
        query, key, value = (
            part(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part, rows in zip(self.parts, (x, asked, asked), strict=False)
        )
        shares = (query @ key.mT * (WIDTH // HEADS) ** -0.5).softmax(-1)
        return self.parts[3]((shares @ value).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Rows look at each other, at a memory where there is one, and think."""

    def __init__(self, asks):
        super().__init__()
        self.look, self.ask = Looking(), Looking() if asks else None
        self.think = nn.Sequential(nn.Linear(WIDTH, WIDER), nn.ReLU(), nn.Linear(WIDER, WIDTH))
        self.sublayer = nn.ModuleList(Sublayer() for _ in range(2 + asks))

    def forward(self, x, memory=None):
        x = self.sublayer[0](x, lambda rows: self.look(rows, rows))
        if self.ask is not None:
            x = self.sublayer[1](x, lambda rows: self.ask(rows, memory))
        return self.sublayer[-1](x, self.think)


class Annotated(nn.Module):
    """An encoder and a decoder of one layer each (DCP)."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([Layer(asks=False)])
        self.decoder = nn.ModuleList([Layer(asks=True)])
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, asked, x):
        for layer in self.encoder:
            asked = layer(asked)
        asked = self.norms[0](asked)
        for layer in self.decoder:
            x = layer(x, asked)
        return self.norms[1](x)


def test_one_member_of_a_list_is_one_layer_be_its_sublayers_listed_too():
    torch.manual_seed(0)
    trace = xray.trace(Annotated().eval(), torch.rand(BATCH, ASKED, WIDTH), torch.rand(BATCH, ROWS, WIDTH))
    told = [
        [[branch.part for stage in group.stages for branch in stage.branches] for group in tower.groups]
        for tower in xray.anatomy(trace).towers
    ]

    assert told == [[["attention", "feed_forward"]], [["attention", "attention", "feed_forward"]]]
