"""A norm behind a branch and the number by which its rows are multiplied then: each step stands in one box."""

import pytest
import torch
from handwritten import Attention
from story.body.arrows import list_twice
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH = 15


class Norm(nn.Module):
    """A norm by the root of the mean of squares, written out."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Layer(nn.Module):
    """Branches with a norm before and behind; what the last gives is multiplied by `scale` (Gemma's ears, Beam)."""

    def __init__(self, scale, norm):
        super().__init__()
        self.norms, self.attention = nn.ModuleList(norm() for _ in range(4)), Attention(WIDTH, 3)
        self.wide, self.back, self.scale = nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH), scale
        self.own = nn.Parameter(torch.rand(1))

    def forward(self, x):
        read = self.norms[0](x)
        x = x + self.scale(self.norms[1](self.attention(read, read)), self)
        return x + self.scale(self.norms[3](self.back(nn.functional.silu(self.wide(self.norms[2](x))))), self)


SCALES = {
    "halved": (lambda rows, _: rows * 0.5, "÷ 2"),
    "divided": (lambda rows, _: rows / 2, "÷ 2"),
    "in place": (lambda rows, _: rows.mul_(0.5), "÷ 2"),
    "dropped out": (lambda rows, _: nn.functional.dropout(rows, 0.1) * 0.5, "÷ 2"),
    "learned": (lambda rows, layer: layer.own * rows, "× LEARNED NUMBERS"),
}


@pytest.mark.parametrize("norm", [Norm, lambda: nn.LayerNorm(WIDTH)], ids=["written out", "layer norm"])
@pytest.mark.parametrize(("scale", "told"), SCALES.values(), ids=SCALES)
def test_a_factor_behind_a_norm_stands_in_its_own_box_alone(scale, told, norm):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(31, WIDTH), *(Layer(scale, norm) for _ in range(3)), nn.Linear(WIDTH, 31))
    (column,) = read_columns(xray.trace(model.eval(), torch.arange(14).view(2, 7)))
    for panel in column.frames[0].panels:
        norm, factor = panel.chart.node("closing"), panel.chart.node("scale")

        assert factor.label == told
        assert norm.record.source == norm.steps[0].id
    assert list(list_twice([column])) == []
