"""Which modules took no part: the outermost with whose parameters no step made a number."""

import torch
from torch import nn

import xray
from xray.story.facts.unused import find_idle

WIDTH = 6


class Finds(nn.Module):
    """Rows are made, few of them are picked, and worked on once more (LoFTR)."""

    def __init__(self):
        super().__init__()
        self.coarse, self.fine = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.fine(self.coarse(x)[:0])


def test_a_model_that_hands_no_row_out_is_not_unused_where_parts_of_it_worked():
    model = nn.Sequential(Finds(), nn.Identity())

    assert find_idle(xray.trace(model.eval(), torch.rand(3, WIDTH))) == {"0.fine": WIDTH * WIDTH + WIDTH}


class Sends(nn.Module):
    """Every row goes to the first of two experts, and none to the second; a last layer is not called."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(2))
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return torch.cat([expert(rows) for expert, rows in zip(self.experts, (x, x[:0]), strict=True)])


def test_an_expert_that_was_given_no_rows_is_idle_as_a_whole():
    idle = find_idle(xray.trace(Sends(), torch.rand(3, WIDTH)))

    assert idle == {"experts.1": 2 * (WIDTH * WIDTH + WIDTH), "last": WIDTH * WIDTH + WIDTH}
