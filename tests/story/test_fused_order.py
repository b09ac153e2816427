"""A layer that makes queries, keys and values at once may have all three of one head behind each other."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, FeedForwardPart
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.sentences.attentions.of_heads import describe_fused

HEADS = 4
"""As many as nothing else, so that no axis can be taken for theirs."""
D_K = WIDTH // HEADS


def cut_blocks(rows):
    return [one.unflatten(-1, (HEADS, D_K)).transpose(1, 2) for one in rows.chunk(3, dim=-1)]


def pick_blocks(rows):
    return list(rows.view(BATCH, PLACES, 3, HEADS, D_K).transpose(1, 3).unbind(2))


def cut_heads(rows):
    return list(rows.view(BATCH, PLACES, HEADS, 3 * D_K).transpose(1, 2).chunk(3, dim=-1))


def pick_heads(rows):
    rows = rows.view(BATCH, PLACES, HEADS, 3, D_K)
    return [rows[..., part, :].transpose(1, 2) for part in range(3)]


class Fused(nn.Module):
    """Attention whose queries, keys and values one layer makes, and are cut apart in one way or another."""

    def __init__(self, cut):
        super().__init__()
        self.cut, self.norm = cut, nn.LayerNorm(WIDTH)
        self.made, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        found = scaled_dot_product_attention(*self.cut(self.made(self.norm(x))))
        return x + self.out(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("cut", "order"), [(cut_blocks, None), (pick_blocks, None), (cut_heads, "head"), (pick_heads, "head")]
)
def test_the_order_in_a_fused_layer_is_known(cut, order):
    model = nn.Sequential(nn.Linear(7, WIDTH), Fused(cut), FeedForwardPart()).eval()

    found = xray.anatomy(xray.trace(model, torch.rand(BATCH, PLACES, 7)))

    branch = found.towers[0].branches[0]
    assert isinstance(branch, Attention)
    assert (branch.fused, branch.fused_by) == ("qkv", order)
    assert ("head by head" in describe_fused(found)) == (order == "head")
