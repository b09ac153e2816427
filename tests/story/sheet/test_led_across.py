"""What works for sublayers of another tower, as keys of both are looked at together, is counted with that one alone."""

import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS = 12, 3
OF_LOOKING, OF_SCALES = 4 * (WIDTH * WIDTH + WIDTH), WIDTH * 2 * WIDTH + 2 * WIDTH


class Side(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.again = (nn.LayerNorm(WIDTH, elementwise_affine=False) for _ in range(2))
        self.moved, self.back = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.looks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.think = nn.Sequential(nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))

    def give(self, x):
        return [one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.looks]


class Joint(nn.Module):
    """Rows of a picture and of a text look at each other; those of the picture are scaled row by row (Pyramid Flow)."""

    def __init__(self):
        super().__init__()
        self.picture, self.text = Side(), Side()

    def forward(self, x, text, time):
        rows = x.new_zeros(*x.shape[:2], 2 * WIDTH)
        rows[:, : x.shape[1]] = self.picture.moved(time)[:, None]
        scale, shift = rows.chunk(2, -1)
        other, move = self.text.moved(time)[:, None].chunk(2, -1)
        own = self.picture.give(self.picture.norm(x) * (1 + scale) + shift)
        theirs = self.text.give(self.text.norm(text) * (1 + other) + move)
        query, key, value = (torch.cat(pair, 2) for pair in zip(theirs, own, strict=True))
        found = ((query @ key.mT * 0.5).softmax(-1) @ value).transpose(1, 2).flatten(2)
        first, second = found[:, : text.shape[1]], found[:, text.shape[1] :]
        first, second = torch.stack([first], 1).flatten(0, 1), torch.cat([second], 1)
        x = x + self.picture.back(second)
        text = text + self.text.back(first)
        return x + self.picture.think(self.picture.again(x)), text + self.text.think(self.text.again(text))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.words, self.time = (nn.Linear(width, WIDTH) for width in (7, 11, 3))
        self.layers = nn.ModuleList(Joint() for _ in range(3))

    def forward(self, x, text, time):
        x, text, time = self.begin(x), self.words(text), nn.functional.silu(self.time(time))
        for layer in self.layers:
            x, text = layer(x, text, time)
        return x, text


def read_text():
    given = torch.rand(2, 5, 7), torch.rand(2, 4, 11), torch.rand(2, 3)
    columns = read_columns(xray.trace(Model().eval(), *given))
    ((frame,),) = (one.frames for one in columns if one.condition is not None)
    return frame


def test_each_stream_has_the_linear_layer_behind_its_own_rows():
    last = read_text().panels[0].chart.nodes[-2]

    assert (last.label, last.steps[0].path) == ("LINEAR O", "layers.0.text.back")


def test_scales_of_another_tower_are_no_parameters_of_a_joint_attention():
    frame = read_text()

    assert frame.panels[0].params == OF_LOOKING
    assert frame.params == OF_LOOKING + OF_SCALES + frame.panels[1].params
