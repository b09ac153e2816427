"""A part of no numbers, such as that of keys which would be turned, leads nowhere (GLM-5's text, Mistral Large 4)."""

import pytest
import torch
from story.body.test_kept_waist import D_K, HEADS, WAIST, WIDTH, Layer
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.sheet.columns import read_columns


class Beside(nn.Module):
    """Latent attention whose keys have so many numbers beside those of the waist, one part for all heads."""

    def __init__(self, beside):
        super().__init__()
        self.beside = beside
        self.query = nn.Linear(WIDTH, HEADS * (D_K + beside))
        self.down, self.norm = nn.Linear(WIDTH, WAIST + beside), nn.LayerNorm(WAIST)
        self.up, self.out = nn.Linear(WAIST, 2 * HEADS * D_K), nn.Linear(HEADS * D_K, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, HEADS, -1).transpose(1, 2)
        waist, shared = self.down(x).split([WAIST, self.beside], dim=-1)
        both = self.up(self.norm(waist)).view(batch, length, HEADS, 2 * D_K).transpose(1, 2)
        own, value = both.split([D_K, D_K], dim=-1)
        shared = shared.view(batch, 1, length, self.beside).expand(-1, HEADS, -1, -1)
        key = own.new_empty(*own.shape[:-1], D_K + self.beside)
        key[..., :D_K].copy_(own)
        key[..., D_K:].copy_(shared)
        seen = scaled_dot_product_attention(query, key, value)
        return self.out(seen.transpose(1, 2).reshape(batch, length, -1))


@pytest.mark.parametrize("beside", [3, 0])
def test_keys_come_from_what_is_cut_only_where_a_part_of_it_has_numbers(beside):
    model = nn.Sequential(nn.Embedding(11, WIDTH), *(Layer(Beside(beside)) for _ in range(2))).eval()
    (column,) = read_columns(xray.trace(model, torch.tensor([[1, 2, 3, 4, 5]])))

    chart = column.frames[0].panels[0].chart
    (waist,) = (node.key for node in chart.nodes if node.label == "DOWN TO A WAIST FOR K, V")
    from_waist = {edge.target for edge in chart.edges if edge.source == waist}
    assert any(key.endswith("_k") for key in from_waist) == (beside > 0)
    assert not any(node.label.startswith("CACHE") for node in chart.nodes)  # parts are written, and none is kept
