"""Experts that are chosen one after the other are told together."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, draw, rows
from torch import nn
from torch.nn import functional


class OneByOne(nn.Module):
    """Experts of which the best is chosen, then the best of the others (Phi-MoE)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        scores = self.router(given)
        first, one = scores.max(-1, keepdim=True)
        second, other = scores.scatter(1, one, -torch.inf).max(-1, keepdim=True)
        chosen, weights = torch.cat((one, other), -1), torch.cat((first, second), -1).sigmoid()
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        return x + (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)


def test_experts_that_are_chosen_one_after_the_other_are_counted_together():
    given = rows()
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), OneByOne()), given)}

    assert nodes["choice"].label == "2 OF 4 CHOSEN"
    assert nodes["choice"].record.shape == (given.shape[0] * given.shape[1], 2)
