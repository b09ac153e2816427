"""Sums that add to a part of what one layer makes, and sums inside a branch: neither is where a stream goes on."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray

WIDTH, WIDER, PLACES = 15, 20, 7


class Parted(nn.Module):
    """One linear layer makes keys, queries and values in place of the rows; what is found is added to the values."""

    def __init__(self):
        super().__init__()
        self.norm, self.three = nn.LayerNorm(WIDER), nn.Linear(WIDER, 3 * WIDTH)
        self.bend, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, rows):
        key, query, value = self.three(self.norm(rows)).chunk(3, dim=-1)
        key, query = self.bend(key).exp(), self.bend(query).exp()
        found = query @ (key.transpose(1, 2) @ value) / (query * key.sum(1, keepdim=True)).sum(-1, keepdim=True)
        return value + self.last(found)


class Moved(nn.Module):
    """The normed rows and some of their neighbours are added up inside a branch, which a gate lets into the stream."""

    def __init__(self):
        super().__init__()
        self.norm, self.near = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.look, self.gate = Attention(WIDTH, 3), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, rows):
        normed = self.norm(rows)
        near = normed + self.near(normed.transpose(1, 2)).transpose(1, 2)
        rows = torch.addcmul(rows, self.gate(near).sigmoid(), self.look(near, near) - rows)
        return rows + self.wide(rows)


class Stack(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.first = first
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, rows):
        rows = self.first(rows)
        for layer in self.layers:
            rows = layer(rows)
        return rows


def test_one_of_three_parts_that_the_others_are_added_to_is_no_stream():
    anatomy = xray.anatomy(xray.trace(Stack(Parted()).eval(), torch.randn(2, PLACES, WIDER)))

    assert [tower.layers for tower in anatomy.towers] == [3]


def test_a_sum_with_normed_rows_inside_a_branch_is_no_stream_where_that_goes_on_past_it():
    trace = xray.trace(nn.Sequential(*(Moved() for _ in range(3))).eval(), torch.randn(2, PLACES, WIDTH))

    told = [branch.part for tower in xray.anatomy(trace).towers for branch in tower.branches]

    assert {*told} <= {"feed_forward"}
