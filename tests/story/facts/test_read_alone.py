"""Parameters of no module that some blocks read, while others of their kind are given nothing to read theirs for."""

import pytest
import torch
from torch import nn

import xray
from xray.story.facts.unused import find_unused, list_read_alone
from xray.story.sheet.shares import list_idle

WIDTH = 5


class Gathering(nn.Module):
    """Rows of which so many become one, with a learned number for each place among them; another beside it, if any."""

    def __init__(self, rate, *, has_more=False):
        super().__init__()
        self.rate, self.given, self.bias = rate, nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.rand(rate, WIDTH))
        self.more = nn.Parameter(torch.rand(7)) if has_more else None

    def forward(self, x):
        rows, whole = self.given(x), x.shape[1] // self.rate * self.rate
        if not whole:
            return x
        cut = rows[:, :whole].view(x.shape[0], -1, self.rate, WIDTH) + self.bias
        return x + cut.mean(2).mean(1, keepdim=True)


class Gatherings(nn.Module):
    def __init__(self, **given):
        super().__init__()
        self.layers = nn.ModuleList(Gathering(rate, **given) for rate in (3, 11, 2, 13, 3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def record(model):
    return xray.trace(model.eval(), torch.rand(2, 6, WIDTH))


def test_what_blocks_of_the_kind_read_of_no_module_counts_as_used():
    trace = record(Gatherings())
    unused = find_unused(trace)

    read = list_read_alone(trace, unused)
    assert read == {f"layers.{number}.bias" for number in (0, 2, 4)}
    assert [name for name, _, _ in list_idle("unused", unused, read)] == ["unused: 2 of 5 *.bias"]


@pytest.mark.parametrize("module", [Gatherings(has_more=True), nn.Sequential(Gathering(11), nn.Linear(WIDTH, 3))])
def test_where_it_is_not_known_which_one_was_read_none_counts_as_used(module):
    trace = record(module)

    assert find_unused(trace)
    assert list_read_alone(trace, find_unused(trace)) == frozenset()
