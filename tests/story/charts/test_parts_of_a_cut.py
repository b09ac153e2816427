"""A box of a cut shows its first part: what another part goes on to is led there from what is cut."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.sheet.columns import read_columns

WAIST, HEADS, D_K, BESIDE = 4, 3, 5, 2


class WaistWithMore(nn.Module):
    """Keys and values by way of a waist; a few numbers beside it go into the keys of all heads as they are."""

    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(WIDTH, HEADS * (D_K + BESIDE)), nn.Linear(HEADS * D_K, WIDTH)
        self.down, self.norm, self.up = nn.Linear(WIDTH, WAIST + BESIDE), nn.LayerNorm(WAIST), nn.Linear(WAIST, 30)

    def forward(self, x):
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, HEADS, -1).transpose(1, 2)
        waist, beside = self.down(x).split([WAIST, BESIDE], dim=-1)
        both = self.up(self.norm(waist)).view(batch, length, HEADS, 2 * D_K).transpose(1, 2)
        key, value = both.chunk(2, dim=-1)
        beside = beside.view(batch, 1, length, BESIDE).expand(-1, HEADS, -1, -1)
        seen = scaled_dot_product_attention(query, torch.cat([key, beside], dim=-1), value)
        return x + self.out(seen.transpose(1, 2).flatten(2))


def test_what_lies_beside_a_waist_is_led_from_what_is_cut():
    model = nn.Sequential(WaistWithMore(), FeedForwardPart(), WaistWithMore(), FeedForwardPart()).eval()

    (column,) = read_columns(xray.trace(model, torch.ones(2, 11, WIDTH)))

    chart = column.frames[0].panels[0].chart
    nodes = {node.key: node for node in chart.nodes}
    cut = next(key for key, node in nodes.items() if node.label == f"CUT: {WAIST} OF {WAIST + BESIDE}")
    below = next(key for key, node in nodes.items() if node.record is not None and node.record.shape[-1] == BESIDE)
    ways = [nodes[edge.source].label for edge in chart.edges if edge.target == below]
    assert ways == ["DOWN TO A WAIST FOR K, V"]
    assert [nodes[edge.target].label for edge in chart.edges if edge.source == cut] == ["NORM BEFORE K, V"]
