"""What the steps of an entrance do, in words."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.roles.listing import list_roles


class Nearest(nn.Module):
    """Of all points those that are next to the first one go into the layers (PCT)."""

    def __init__(self):
        super().__init__()
        self.lead, self.rows = (
            nn.Linear(3, 15),
            nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(2)),
        )

    def forward(self, points):
        rows = self.lead(points)
        apart = -2 * (points @ points[:, :1].transpose(1, 2))
        apart += (points**2).sum(-1, keepdim=True)
        x = rows[torch.arange(len(points))[:, None], apart.topk(5, 1).indices[..., 0]]
        for row in self.rows:
            x = row(x)
        return x


def test_what_says_which_rows_are_picked_is_no_embedding():
    roles = list_roles(xray.trace(Nearest(), torch.rand(2, 7, 3)))["forward"]

    told = {identity: words for identity, words in roles.items() if words.startswith("embedding")}
    assert told == {"lead#0": "embedding: projection"}
