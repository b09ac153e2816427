"""What is worked out beside the stream for what stands behind a tower's layers: of another tower, or of a time."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, PLACES = 12, 5


class Scaled(nn.Module):
    """Attention and feed-forward, scaled and shifted by rows from beside."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.moved, self.look = nn.Linear(WIDTH, 4 * WIDTH), Attention(WIDTH, 3)
        self.think = nn.Sequential(nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))

    def forward(self, x, beside):
        scale, shift, again, other = self.moved(beside).chunk(4, -1)
        rows = self.norms[0](x) * (1 + scale) + shift
        x = x + self.look(rows, rows)
        return x + self.think(self.norms[1](x) * (1 + again) + other)


class Decoupled(nn.Module):
    """One tower makes of a time what scales the layers of another, and what is behind these (DDT)."""

    def __init__(self):
        super().__init__()
        self.begin, self.again, self.time = (nn.Linear(width, WIDTH) for width in (7, 7, 3))
        self.first, self.second = (nn.ModuleList(Scaled() for _ in range(2)) for _ in range(2))
        self.moved, self.norm, self.last = nn.Linear(WIDTH, 2 * WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 7)

    def forward(self, given, time):
        made, time = self.begin(given), self.time(time)[:, None]
        for layer in self.first:
            made = layer(made, nn.functional.silu(time))
        made, x = nn.functional.silu(time + made), self.again(given)
        for layer in self.second:
            x = layer(x, made)
        scale, shift = self.moved(made).chunk(2, -1)
        return self.last(self.norm(x) * (1 + scale) + shift), made


class Beside(Decoupled):
    """The time that scales one tower's layers scales what is behind another one too, row by row (Pyramid Flow)."""

    def forward(self, given, time):
        made, x, time = self.begin(given), self.again(given), nn.functional.silu(self.time(time)[:, None])
        for plain, layer in zip(self.first, self.second, strict=True):
            x, made = layer(x, time), plain(made, torch.zeros(1, 1, WIDTH))
        rows = made.new_zeros(len(made), PLACES, 2 * WIDTH)
        rows[:, :PLACES] = self.moved(time)
        scale, shift = rows.chunk(2, -1)
        return self.last(self.norm(made) * (1 + scale) + shift), x


def read_ends(model):
    columns = read_columns(xray.trace(model.eval(), torch.rand(2, PLACES, 7), torch.rand(2, 3)))
    boxes = [[(one.label, one.surface) for one in column.exit.nodes] if column.exit else [] for column in columns]
    return columns, boxes


def test_what_one_tower_makes_for_the_end_of_another_is_drawn_there_alone():
    _, (first, second) = read_ends(Decoupled())

    assert [label for label, surface in second if surface == "memory"] == ["SiLU", "LINEAR"]
    assert "LINEAR" not in [label for label, _ in first]


def test_what_a_time_makes_for_the_end_of_a_tower_is_made_by_none():
    columns, ends = read_ends(Beside())

    painted = {label: surface for boxes in ends for label, surface in boxes}
    assert (painted["LINEAR"], painted["ROWS PUT IN"]) == ("own", "condition")
    assert not any(column.exit.memory for column in columns if column.exit)
