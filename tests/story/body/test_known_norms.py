"""Norms that are written out are called what they make of rows, and by no other name."""

import pytest
import torch
from handwritten import SpeltNorm
from torch import nn

import xray
from xray import anatomy
from xray.ir.flow.dataflow import read_flow
from xray.story.recognition.norms import find_norm

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
        (lambda x: (x * torch.rsqrt(mean(x.pow(2)) + 1e-6)).type_as(x), "rms"),
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


class Twice(nn.Module):
    """A norm right behind another one, both written out; the weights stand before the division (RetroFormer)."""

    def __init__(self):
        super().__init__()
        self.one, self.two = SpeltNorm(WIDTH), SpeltNorm(WIDTH)

    def forward(self, x):
        return self.two(self.one(x))


def test_a_part_of_a_norm_is_not_told_with_the_norm_that_it_reads():
    (one_pass,) = xray.trace(Twice().eval(), torch.rand(BATCH, PLACES, WIDTH)).passes
    flow = read_flow(one_pass)
    ends = [one for one in range(len(flow.steps)) if flow.is_leaf(one) and find_norm(flow, one) is not None]

    assert [flow.steps[one].id for one in ends if flow.op(one) == "add"] == ["one.add#1", "two.add#1"]
    assert all(name_block(flow, node) == name_block(flow, one) for one in ends for node in find_norm(flow, one).nodes)


def name_block(flow, node):
    return flow.steps[node].path.partition(".")[0]
