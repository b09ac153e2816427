"""What boxes of a condition say: how many layers have a part of their own, and which inputs meet in one."""

import pytest
import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH = 12


class Layer(nn.Module):
    """An attention whose norm is scaled by what all layers share and a table of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.table = nn.LayerNorm(WIDTH), nn.Parameter(torch.randn(1, 1, WIDTH))
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=True)

    def forward(self, rows, shared):
        read = self.norm(rows) * (1 + shared[:, None] + self.table)
        return rows + self.attention(read, read, read, need_weights=False)[0]


class Thinking(Layer):
    """The same, and what thinks about each place alone behind it."""

    def __init__(self):
        super().__init__()
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.ReLU(), nn.Linear(31, WIDTH))

    def forward(self, rows, shared):
        rows = super().forward(rows, shared)
        return rows + self.think(rows)


class Timed(nn.Module):
    """Layers of two lists, by turns, and how far two times are apart."""

    def __init__(self, other):
        super().__init__()
        self.shared = nn.Linear(1, WIDTH)
        self.one, self.other = (nn.ModuleList(kind() for _ in range(2)) for kind in (Thinking, other))

    def forward(self, rows, time, time_before):
        shared = self.lead(time, time_before)
        for one, other in zip(self.one, self.other, strict=True):
            rows = other(one(rows, shared), shared)
        return rows

    def lead(self, time, time_before):
        return self.shared((time - time_before)[:, None])


def chart(other=Layer):
    (column,) = read_columns(xray.trace(Timed(other), torch.rand(2, 7, WIDTH), torch.rand(2), torch.rand(2)))
    return column.condition


@pytest.mark.parametrize(("other", "count"), [(Layer, 2), (Thinking, 4)])
def test_layers_of_another_list_and_of_other_parts_have_no_share_in_the_table_of_the_first(other, count):
    assert f"12 parameters × {count} layers" in [node.extra for node in chart(other).nodes]


def test_two_inputs_that_meet_at_once_are_both_told():
    assert "TIME − TIME BEFORE" in [node.label for node in chart().nodes]


class Shared(Timed):
    """What layers share is a mean of numbers, each divided by how many there are of one sequence (Mochi)."""

    def lead(self, time, time_before):
        return self.shared(time[..., None] / time_before[..., None].sum(1, keepdim=True)).sum(1)


def test_numbers_that_are_divided_by_one_number_are_not_said_to_be_multiplied_by_it():
    (column,) = read_columns(xray.trace(Shared(Layer), torch.rand(1, 7, WIDTH), torch.rand(1, 5), torch.ones(1, 5)))

    labels = [node.label for node in column.condition.nodes]
    assert "÷ ONE NUMBER" in labels
    assert "× ONE NUMBER" not in labels
