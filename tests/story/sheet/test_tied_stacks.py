"""Weights of which several parts of a model make use: they are counted at one of them."""

import pytest
import torch
from handwritten import Attention
from torch import nn

import xray
from xray import anatomy
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH = 15


class Two(nn.Module):
    """Two projections whose weights the block holds itself, laid on their side to be multiplied with."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(23, WIDTH)), nn.Parameter(torch.randn(WIDTH, 23))

    def forward(self, x):
        return torch.matmul(torch.matmul(x, self.up.transpose(0, 1)).relu(), self.down.transpose(0, 1))


class ByItsOwnType(nn.Module):
    """A root mean square norm that brings its learned numbers to the type that they have already."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight.float()


class Again(nn.Module):
    """Two stacks of layers of their own, whose parameters are the same ones (DiffusionGemma)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            nn.ModuleList(nn.ModuleList((ByItsOwnType(), Two())) for _ in range(3)) for _ in range(2)
        )
        for layer, other in zip(self.first, self.second, strict=True):
            other[0].weight, other[1].up, other[1].down = layer[0].weight, layer[1].up, layer[1].down
        self.words, self.middle = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        x = self.words(ids)
        for pair in self.first:
            x = run(pair, x)
        x = self.middle(x)
        for pair in self.second:
            x = run(pair, x)
        return x


def run(pair, x):
    norm, two = pair
    return x + two(norm(x))


def test_a_stack_that_works_with_the_weights_of_another_one_counts_none_of_them_again():
    torch.manual_seed(0)
    model = Again()
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    listed = list_shares(read_columns(trace, all_layers=False), trace)

    assert sum(count for _, _, count in listed) == sum(one.numel() for one in model.parameters())


class Beside(nn.Module):
    """Two stacks beside each other, each on words of its own: the second has parameters of its own, or not, or some."""

    def __init__(self, *, is_lent):
        super().__init__()
        self.words, self.middle = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = (
            nn.ModuleList(
                nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 23), nn.ReLU(), nn.Linear(23, WIDTH))
                for _ in range(3)
            )
            for _ in range(2)
        )
        for name, parameter in self.first.named_parameters() if is_lent else ():
            part, _, last = name.rpartition(".")
            if is_lent == "in part" and part.endswith("3"):
                continue  # the last linear layers stay its own
            setattr(self.second.get_submodule(part), last, parameter)

    def forward(self, ids, others):
        x, y = self.words(ids), self.middle(self.words(others))
        for one, other in zip(self.first, self.second, strict=True):
            x, y = x + one(x), y + other(y)
        return x @ y.mT


@pytest.mark.parametrize("is_lent", [True, False])
def test_a_tower_whose_layers_work_with_the_weights_of_another_one_says_so(is_lent):
    torch.manual_seed(0)
    ids = torch.arange(14).view(2, 7)
    one, other = anatomy(xray.trace(Beside(is_lent=is_lent), ids, ids[:, :5] + 1)).towers

    assert (one.weights_of, other.weights_of) == (None, one.name if is_lent else None)


@pytest.mark.parametrize(("is_lent", "is_said"), [("in part", True), (True, False), (False, False)])
def test_a_tower_whose_layers_work_with_some_weights_of_another_one_says_so(is_lent, is_said):
    torch.manual_seed(0)
    ids = torch.arange(14).view(2, 7)
    one, other = anatomy(xray.trace(Beside(is_lent=is_lent), ids, ids[:, :5] + 1)).towers

    assert (one.some_weights_of, other.some_weights_of) == (None, one.name if is_said else None)


class Lends(nn.Module):
    """A layer that adds a bias which a part of it holds, and does not use (GPT-NeoX Japanese)."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 23), nn.ReLU(), nn.Linear(23, WIDTH)) for _ in "ab")
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in "ab")
        self.parts[0].bias = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        x = x + (self.parts[0](self.norms[0](x)) + self.parts[0].bias.expand_as(x))
        return x + self.parts[1](self.norms[1](x))


def test_a_parameter_that_a_part_lends_is_counted_with_it_alone():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(31, WIDTH), Lends(), Lends(), Lends())
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    listed = list_shares(read_columns(trace, all_layers=False), trace)

    assert sum(count for _, _, count in listed) == sum(one.numel() for one in model.parameters())


class Refined(nn.Module):
    """Learned rows ask an encoder, and by the same layers what these found, again and again (ABINet)."""

    def __init__(self):
        super().__init__()
        self.words, self.back = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.rows = nn.Parameter(torch.rand(1, 5, WIDTH))
        self.first, self.asking = (nn.ModuleList(Attention(WIDTH, 3) for _ in range(2)) for _ in range(2))
        self.think = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 40), nn.ReLU(), nn.Linear(40, WIDTH)) for _ in "ab")

    def forward(self, ids):
        found = self.words(ids)
        for layer in self.first:
            found = found + layer(found, found)
        for _ in range(3):
            memory, found = self.back(found), self.rows + 0
            for ask, think in zip(self.asking, self.think, strict=True):
                found = found + ask(found, memory)
                found = found + think(found)
        return found


def test_layers_that_look_at_what_they_gave_before_are_a_stack_each_time():
    torch.manual_seed(0)
    towers = anatomy(xray.trace(Refined(), torch.arange(7)[None])).towers

    assert [one.name for one in towers] == ["encoder", "decoder", "stack", "stack 2"]
    assert {one.weights_of for one in towers[2:]} == {"decoder"}
