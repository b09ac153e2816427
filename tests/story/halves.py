"""An attention whose heads are turned in halves, and its chart."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage

WIDTH, HEADS, KEY_HEADS, D_K = 35, 4, 2, 6
IDS = torch.tensor([[1, 2, 3, 4, 5]])


class InHalves(nn.Module):
    """Rows turned in halves that are cut apart and put together again, values repeated along an axis of their own."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, heads * D_K) for heads in (HEADS, KEY_HEADS, KEY_HEADS))
        self.end: nn.Module = nn.Linear(HEADS * D_K, WIDTH)
        angles = torch.arange(5)[:, None] * 0.5 ** torch.arange(3)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turn(self, rows):
        one, other = rows.chunk(2, dim=-1)
        return torch.cat([one * self.cos - other * self.sin, other * self.cos + one * self.sin], dim=-1)

    def forward(self, x):
        query, key, value = (
            made(x).view(*x.shape[:2], -1, D_K).transpose(1, 2) for made in (self.query, self.key, self.value)
        )
        query, key = self.turn(query), self.turn(key)
        key, value = (
            one[:, :, None].expand(-1, -1, HEADS // KEY_HEADS, -1, -1).reshape(query.shape) for one in (key, value)
        )
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.end(seen.transpose(1, 2).reshape(*x.shape[:2], -1))


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.before, self.attention = nn.LayerNorm(WIDTH), attention
        self.think, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 55), nn.Linear(55, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.back(torch.relu(self.wide(self.think(x))))


def trace_of(make):
    return xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), Layer(make()), Layer(make())), IDS)


def chart_of(make):
    (forward,) = trace_of(make).passes
    return chart_stage(read_flow(forward), read_pass(forward).towers[0].stagings[0])
