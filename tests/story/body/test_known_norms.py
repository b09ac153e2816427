"""Norms that are written out are called what they make of rows, and by no other name."""

import pytest
import torch
from torch import nn

import xray
from xray import anatomy

BATCH, PLACES, WIDTH = 2, 5, 12


class Norm(nn.Module):
    def __init__(self, work_out):
        super().__init__()
        self.weight, self.bias, self.work_out = (
            nn.Parameter(torch.ones(WIDTH)),
            nn.Parameter(torch.ones(WIDTH)),
            work_out,
        )

    def forward(self, x):
        return self.work_out(x) * self.weight + self.bias


class Layer(nn.Module):
    def __init__(self, work_out):
        super().__init__()
        self.norms = nn.ModuleList(Norm(work_out) for _ in range(2))
        self.mix = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.work = nn.Sequential(nn.Linear(WIDTH, 17), nn.GELU(), nn.Linear(17, WIDTH))

    def forward(self, x):
        rows = self.norms[0](x)
        x = x + self.mix(rows, rows, rows, need_weights=False)[0]
        return x + self.work(self.norms[1](x))


def mean(x):
    return x.mean(-1, keepdim=True)


def var(x):
    return x.var(-1, keepdim=True)


@pytest.mark.parametrize(
    ("work_out", "kind"),
    [
        (lambda x: x * torch.rsqrt(mean(x.pow(2)) + 1e-6), "rms"),
        (lambda x: x / (mean(x * x) + 1e-6).sqrt(), "rms"),
        (lambda x: (x.float() * torch.rsqrt(mean(x.float().pow(2)) + 1e-6)).type_as(x), "rms"),
        (lambda x: x / (mean(x.pow(2)) + 1e-6), None),
        (lambda x: x * torch.sqrt(mean(x.pow(2)) + 1e-6), None),
        (lambda x: x * torch.rsqrt(mean(x).pow(2) + 1e-6), None),
        (lambda x: x * torch.rsqrt(mean(x[..., :3].pow(2)) + 1e-6), None),
        (lambda x: x / torch.sqrt(var(x) + 1e-6), None),
        (lambda x: (x - mean(x)) / torch.sqrt(var(x) + 1e-5), "layer"),
        (lambda x: (x - mean(x)) / (x.std(-1, keepdim=True) + 1e-5), "layer"),
        (lambda x: (x - mean(x)) / (var(x) + 1e-5), None),
        (lambda x: (x - x.mean()) / x.std(), None),
        (lambda x: nn.functional.layer_norm(x, (WIDTH,)), "layer"),
        (lambda x: nn.functional.layer_norm(x, (PLACES, WIDTH)), None),
    ],
)
def test_a_norm_is_called_what_it_makes_of_rows(work_out, kind):
    model = nn.Sequential(*(Layer(work_out) for _ in range(2)))
    (tower,) = anatomy(xray.trace(model.eval(), torch.randn(BATCH, PLACES, WIDTH))).towers
    assert {stage.norm.kind for group in tower.groups for stage in group.stages} == {kind}
