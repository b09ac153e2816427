"""How many learned numbers a box says it has, where no module of its own holds them."""

import torch
from story.charts.test_operations_chart import chart_of, rows
from torch import nn


class Factored(nn.Module):
    """Rows times one learned row, shifted by another, one learned number in front."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.row, self.one = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(1))

    def forward(self, x):
        made = self.first(x)
        made = made * made.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt() * self.row
        return self.last(torch.cat((self.one.expand(2, 1, 8), made), 1))


class Probed(nn.Module):
    """A learned row, through a norm and a layer of its own, that looks at all others (SigLIP's head, Aria)."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.ask, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.LayerNorm(8)
        self.row = nn.Parameter(torch.ones(1, 1, 8))
        self.both = nn.Parameter(torch.ones(16, 8))

    def forward(self, x):
        made = self.first(x)
        key, value = (made @ one.T for one in self.both.chunk(2))
        scores = self.ask(self.norm(self.row)).expand(2, -1, -1) @ key.transpose(1, 2)
        return self.last(scores.softmax(-1) @ value)


def extras_of(model):
    return {node.label: node.extra for node in chart_of(model, rows(8)).nodes}


def test_learned_rows_are_counted_once_be_they_repeated():
    extras = extras_of(Factored())

    assert extras["RMS NORM"] == "8 parameters"
    assert extras["A LEARNED ROW IN FRONT"] == "1 parameter"


def test_the_parts_of_a_parameter_are_counted_where_they_are_read():
    extras = [node.extra for node in chart_of(Probed(), rows(8)).nodes if node.label in ("LINEAR", "LAYER NORM")]

    assert extras == [f"{count} parameters" for count in (72, 16, 64, 64, 72, 72)]
