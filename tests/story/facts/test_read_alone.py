"""Parameters of no module that some blocks read, while others of their kind are given nothing to read theirs for."""

import pytest
import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

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


@pytest.mark.parametrize(("has_more", "row"), [(False, "unused: 2 of 5 *.bias"), (True, "unused: *.more")])
def test_a_parameter_of_no_module_is_known_by_its_name(has_more, row):
    trace = record(Gatherings(has_more=has_more))

    rows = {name: count for name, _, count in list_shares(read_columns(trace), trace)}
    assert row in rows
