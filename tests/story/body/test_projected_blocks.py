"""Blocks whose way past what they do is a layer too: they add something, though no stream comes by unchanged."""

import torch
from story.body.test_numbered import SIDE, Block, Pyramid
from torch import nn

import xray
from xray.story.sentences.of_models import describe_blocks


class Projected(Block):
    """The same, where what came in is made wider too, and added (ResNet)."""

    def __init__(self, before, after):
        super().__init__(before, after)
        self.past = nn.Conv2d(before, after, 1) if self.is_wider else nn.Identity()

    def forward(self, x):
        return self.past(x) + torch.relu(self.norm(self.mix(x)))


def test_blocks_that_add_what_they_make_of_what_came_in_do_not_add_nothing():
    model = Pyramid()
    model.blocks = nn.ModuleList(Projected(*one) for one in [(3, 5), (5, 5), (5, 7), (7, 7), (7, 7)])

    assert "nothing" not in describe_blocks(xray.anatomy(xray.trace(model, torch.rand(2, 3, SIDE, SIDE))))
