"""Which modules took no part: those that made no number, and none that hold another which made some."""

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
