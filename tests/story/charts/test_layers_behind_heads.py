"""What stands around the heads of an attention is called by what it does, and not by where it stands."""

import pytest
import torch
from story.endings import list_labels
from torch import nn

import xray

WIDTH, HEADS = 12, 3


class Squashed(nn.Module):
    """Numbers held by tanh, then scaled and shifted by learned ones, in place of a norm (DyT)."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))

    def forward(self, x):
        return torch.tanh(x) * self.weight + self.bias


class Layer(nn.Module):
    """A layer of which `finish` leads what the heads found to the sum."""

    def __init__(self, finish, norm):
        super().__init__()
        self.norms = nn.ModuleList(norm() for _ in range(2))
        self.linears, self.finish = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(7)), finish
        self.work = nn.Sequential(nn.Linear(WIDTH, 17), nn.GELU(), nn.Linear(17, WIDTH))

    def attend(self, *rows):
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (query @ key.transpose(-1, -2) / 2).softmax(dim=-1)
        return (weights @ value).transpose(1, 2).flatten(2)

    def forward(self, x):
        rows = self.norms[0](x)
        x = x + self.finish(self, self.attend(*(one(rows) for one in self.linears[:3])))
        return x + self.work(self.norms[1](x))


def project(layer, found):
    return layer.linears[3](found)


def attend_again(layer, found):
    return layer.linears[3](layer.attend(*(one(found) for one in layer.linears[4:])))


def open_by_itself(layer, found):
    return layer.linears[3](found * torch.sigmoid(layer.linears[4](found)))


def gate_by_itself(layer, found):
    rows = layer.linears[3](found)
    return rows * torch.tanh(layer.linears[5](torch.relu(layer.linears[4](rows))))


def bend_first(layer, found):
    return layer.linears[3](torch.relu(layer.norms[0](found)))


def labels(finish, norm=lambda: nn.LayerNorm(WIDTH)):
    model = nn.Sequential(*(Layer(finish, norm) for _ in range(2)))
    return list_labels(xray.trace(model.eval(), torch.randn(2, 5, WIDTH)))


@pytest.mark.parametrize(("finish", "known"), [(project, 1), (attend_again, 0), (open_by_itself, 0), (bend_first, 0)])
def test_a_layer_that_another_one_or_a_norm_and_a_bend_stand_beside_is_not_the_last_of_an_attention(finish, known):
    assert sum(label.startswith("LINEAR O") for label in labels(finish)) == known


def test_two_layers_one_after_the_other_are_no_layer_times_another_one():
    assert not [label for label in labels(gate_by_itself) if "× LINEAR" in label]


def test_what_scales_and_shifts_before_an_attention_says_both():
    assert any("× LEARNED NUMBERS, LEARNED NUMBERS ADDED" in label for label in labels(project, Squashed))


@pytest.mark.parametrize("bend", [torch.relu, torch.tanh])
def test_where_sums_are_bent_something_is_lost(bend):
    class Bent(Layer):
        def forward(self, x):
            x = bend(x + self.finish(self, self.attend(*(one(self.norms[0](x)) for one in self.linears[:3]))))
            return bend(x + self.work(self.norms[1](x)))

    model = nn.Sequential(*(Bent(project, lambda: nn.LayerNorm(WIDTH)) for _ in range(2)))

    assert not [one for one in list_labels(xray.trace(model.eval(), torch.randn(2, 5, WIDTH))) if "added back" in one]
