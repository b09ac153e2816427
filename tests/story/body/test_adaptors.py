"""Layers of another block, behind linear layers outside of the first one, are a tower of their own (Fun-ASR)."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray

WIDTH, WIDE = 15, 21


def make_layers(width, count):
    return nn.Sequential(*(Layer(width, Attention(width, 3), norm="before") for _ in range(count)))


class Ear(nn.Module):
    """Layers of one width, and perhaps a linear layer to another one."""

    def __init__(self, *, widens=False):
        super().__init__()
        self.layers, self.widen = make_layers(WIDTH, 3), nn.Linear(WIDTH, WIDE) if widens else nn.Identity()

    def forward(self, x):
        return self.widen(self.layers(x))


class Adaptor(nn.Module):
    """Linear layers to another width, or none, and layers of that."""

    def __init__(self, *, widens):
        super().__init__()
        self.widen = nn.Sequential(nn.Linear(WIDTH, 30), nn.ReLU(), nn.Linear(30, WIDE)) if widens else nn.Identity()
        self.layers = make_layers(WIDE, 2)

    def forward(self, x):
        return self.layers(self.widen(x))


class Heard(nn.Module):
    def __init__(self, *, in_ear=False, in_list=False):
        super().__init__()
        ear, adaptor = Ear(widens=in_ear), Adaptor(widens=not in_ear)
        self.given = nn.Linear(7, WIDTH)
        self.ear, self.adaptor = (nn.Identity(), nn.Identity()) if in_list else (ear, adaptor)
        self.stages = nn.ModuleList([ear, adaptor] if in_list else [])

    def forward(self, x):
        x = self.adaptor(self.ear(self.given(x)))
        for stage in self.stages:
            x = stage(x)
        return x


def count_layers(model):
    torch.manual_seed(0)
    return [tower.layers for tower in xray.anatomy(xray.trace(model, torch.rand(2, 5, 7))).towers]


def test_layers_of_another_block_behind_linear_layers_are_no_layers_of_the_first():
    assert count_layers(Heard()) == [3, 2]


@pytest.mark.parametrize("where", ["in_ear", "in_list"])
def test_stages_that_a_block_itself_leads_to_the_next_or_that_are_of_one_list_are_one_tower(where):
    assert count_layers(Heard(**{where: True})) == [5]
