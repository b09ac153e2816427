"""Blocks whose way past what they do is a layer too: they add something, though no stream comes by unchanged."""

import torch
from story.body.test_mistaken import WIDTH
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


class Convolving(nn.Module):
    """A convolution and a feed-forward, each added to what came in."""

    def __init__(self):
        super().__init__()
        self.mix, self.norms = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ModuleList(nn.BatchNorm2d(WIDTH) for _ in "12")
        self.wider, self.back = nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(2 * WIDTH, WIDTH, 1)

    def convolve(self, x):
        return x + self.mix(self.norms[0](x))

    def forward(self, x):
        x = self.convolve(x)
        return x + self.back(torch.relu(self.wider(self.norms[1](x))))


class Widening(Convolving):
    """Places look at each other, and the rows are made wider before the feed-forward (Next-ViT)."""

    def __init__(self):
        super().__init__()
        self.look, self.more = nn.MultiheadAttention(WIDTH, 2, batch_first=True), nn.Conv2d(WIDTH, WIDTH, 1)
        self.norms[1] = nn.BatchNorm2d(2 * WIDTH)
        self.wider, self.back = nn.Conv2d(2 * WIDTH, 3 * WIDTH, 1), nn.Conv2d(3 * WIDTH, 2 * WIDTH, 1)

    def convolve(self, x):
        normed = self.norms[0](x).flatten(2).mT
        x = x + self.look(normed, normed, normed)[0].mT.unflatten(2, (SIDE, SIDE))
        return torch.cat([x, self.more(x)], 1)


class Stages(nn.Module):
    """Stages of blocks, of which the last looks at other places."""

    def __init__(self):
        super().__init__()
        self.narrow = nn.ModuleList(nn.Conv2d(before, WIDTH, 1) for before in (3, 2 * WIDTH))
        self.stages = nn.ModuleList(nn.Sequential(Convolving(), Convolving(), Widening()) for _ in self.narrow)

    def forward(self, x):
        for narrow, stage in zip(self.narrow, self.stages, strict=True):
            x = stage(narrow(x))
        return x


def test_blocks_that_convolve_before_one_that_looks_are_layers_as_wide_as_they_end():
    (tower,) = xray.anatomy(xray.trace(Stages().eval(), torch.rand(2, 3, SIDE, SIDE))).towers

    assert (tower.layers, [(group.layers, group.d_model) for group in tower.groups]) == (
        6,
        [((0, 1), WIDTH), ((2,), 2 * WIDTH), ((3, 4), WIDTH), ((5,), 2 * WIDTH)],
    )
