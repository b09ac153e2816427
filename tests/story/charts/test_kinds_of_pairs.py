"""What is said beside a bias that tells two kinds of pairs apart: nothing of places (Funnel)."""

import torch
from story.body.test_mistaken import HEADS, WIDTH
from story.charts.scaled_attentions import read_panel
from torch import nn

from xray.story.cards.formulas import list_formulas

HEAD = WIDTH // HEADS


class Kinds(nn.Module):
    """Other products of the queries: with rows by distance, and with one of two learned rows, as two are of one kind.

    A learned row, scaled, is added to the queries, and what stands for hidden keys is taken off the scores.
    """

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.near, self.kinds = nn.Embedding(9, WIDTH), nn.Parameter(torch.rand(2, HEADS, HEAD))
        self.row, self.other = nn.Parameter(torch.rand(HEADS, HEAD)), nn.Parameter(torch.rand(HEADS, HEAD))

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = self.qkv(x).reshape(batch, length, 3, HEADS, HEAD).unbind(2)
        places = torch.arange(length, device=x.device)
        near = self.near(places[:, None] - places[None, :] + 4).view(length, length, HEADS, HEAD)
        scores = torch.einsum("bind,bjnd->bnij", query + self.row * 0.25, key)
        scores = scores + torch.einsum("bind,ijnd->bnij", query, near)
        one, two = torch.einsum("bind,snd->bnis", query + self.other * 0.25, self.kinds).split(1, dim=-1)
        kind = (places % 2).expand(batch, -1)
        is_same = (kind[:, :, None] == kind[:, None, :])[:, None].expand(scores.shape)
        scores = scores + torch.where(is_same, one.expand(scores.shape), two.expand(scores.shape))
        scores = scores - 1e6 * (1 - x.new_ones(batch, length)[:, None, None])
        return x + self.out(torch.einsum("bnij,bjnd->bind", scores.softmax(-1), value).flatten(2))


def test_nothing_is_said_of_places_beside_a_bias_of_kinds():
    tower, branch, nodes = read_panel(Kinds, device="meta")

    named = [(node.label, node.remark != "") for node in sorted(nodes, key=lambda one: one.row)]
    told = [one for one in named if one[0] == "MASK" or one[0].startswith("+")]
    assert told == [("+ A BIAS Q", False), ("+ BIAS OF RELATIVE PLACES", True), ("+ A BIAS", False), ("MASK", True)]
    (_, _, line), *_ = list_formulas(tower, branch, nodes)
    assert "".join(run.text for run in line) == "softmax( Q·KT + bias + mask ) · V"
