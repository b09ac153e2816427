"""Layers whose weights no module of theirs holds: nothing is said to be shared, and each counts its own."""

import pytest
import torch
from printed import lines_of
from story.parameter_bars import IDS, bars_of, count, poster_of
from torch import nn
from torch.nn import functional

import xray

WIDE, BACK = (28, 20), (20, 28)


class Written(nn.Module):
    """Layers in one loop: matrices of a list, or rows of a stack, or modules that torch does not know, and one norm."""

    def __init__(self, way):
        super().__init__()
        self.table, self.way = nn.Embedding(53, 20), way
        self.norm = nn.LayerNorm(20)
        if way == "modules":
            self.layers = [(nn.Linear(20, 28), nn.Linear(28, 20)) for _ in range(3)]
        elif way == "list":
            shapes = [WIDE, BACK] * 3
            self.matrices = nn.ParameterList(nn.Parameter(torch.rand(shape)) for shape in shapes)
        else:
            self.wide, self.back = (nn.Parameter(torch.rand(3, *shape)) for shape in (WIDE, BACK))

    def work(self, layer, x):
        if self.way == "modules":
            wide, back = self.layers[layer]
            return back(functional.gelu(wide(x)))
        wide, back = self.matrices[2 * layer :][:2] if self.way == "list" else (self.wide[layer], self.back[layer])
        return functional.linear(functional.gelu(functional.linear(x, wide)), back)

    def forward(self, ids):
        x = self.table(ids)
        for layer in range(3):
            x = x + self.work(layer, self.norm(x))
        return x


@pytest.mark.parametrize("way", ["list", "stack", "modules"])
def test_layers_are_not_said_to_share_weights_of_which_no_path_tells(way):
    trace = xray.trace(Written(way).eval(), IDS)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert (group.count, group.shared) == (3, False)


@pytest.mark.parametrize("way", ["list", "stack"])
def test_each_layer_counts_the_matrices_that_it_is_given(way):
    layout = poster_of(Written(way).eval(), IDS)

    told = {"list": f"{3 * 2 * 28 * 20 + 40:,} parameters in all", "stack": f"{2 * 28 * 20 + 40:,} parameters each"}
    assert told[way] in lines_of(layout)
    assert bars_of(layout)["feed-forward × 3, of their own"] == 3 * 2 * 28 * 20


def test_modules_of_a_list_that_torch_does_not_know_count_each():
    model = Written("modules").eval()
    trace = xray.trace(model, IDS)

    assert xray.anatomy(trace).params == count(model, *(part for layer in model.layers for part in layer))
    assert len({step.path for step in trace.steps if step.module == "Linear"}) == 6
