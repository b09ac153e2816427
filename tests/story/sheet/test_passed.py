"""A box says what is worked out on the way of data to it and stands in no box, and no other box does."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH
from story.sheet.test_unsaid import Layer
from story.test_pieces_of_sound import FRAMES, MELS, Hears
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.cards.boxless import find_unsaid
from xray.story.poster import compose_poster
from xray.story.sheet.arrows.passed import tell_passed
from xray.story.sheet.arrows.proof import keep_proven
from xray.story.sheet.columns import read_columns


def list_told(model, *inputs):
    """What boxes say of the way to them, by their names."""
    columns = keep_proven(read_columns(xray.trace(model.eval(), *inputs)))
    columns = tell_passed(columns, find_unsaid(columns))
    nodes = (node for column in columns for chart in column.charts for node in chart.nodes)
    return [(node.label, told) for node in nodes for told in node.told if "in no box" in told]


def stack(between, head=None):
    layers = (Layer(between) for _ in range(2))
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, head or nn.Linear(WIDTH, 12))


@pytest.mark.parametrize(
    ("between", "told"),
    [
        (nn.Identity(), []),
        (lambda x: torch.sin(x.clamp(-1, 1)), [("GATE × UP", "before it, in no box: silu, clamp, sin")]),
        (lambda x: x.transpose(0, 1).transpose(0, 1), []),
    ],
)
def test_a_box_says_what_is_worked_out_on_the_way_to_it(between, told):
    assert list_told(stack(between), torch.randn(2, 5, WIDTH)) == told


class Called(nn.Module):
    """A function as a part of a stack."""

    def __init__(self, work):
        super().__init__()
        self.work = work

    def forward(self, x):
        return self.work(x)


def test_so_does_one_behind_the_layers():
    head = nn.Sequential(Called(torch.erfinv), nn.Linear(WIDTH, 12), Called(torch.erfinv))

    assert list_told(stack(nn.Identity(), head), torch.rand(2, 5, WIDTH)) == [
        ("LINEAR", "before it, in no box: erfinv")
    ]


class Heard(Hears):
    """What is found in a map is weighed before the frequencies of a moment become one row (Dots3Note's ear)."""

    def forward(self, sound):
        lengths = torch.full((len(sound), 1), FRAMES)
        x = torch.relu(self.find(sound[:, None])) * (torch.arange(FRAMES) < lengths)[:, None, None]
        x = x.permute(0, 3, 1, 2)
        x = self.lead(x.reshape(*x.shape[:2], -1))
        for layer in self.layers:
            x = layer(x)
        return x


def test_it_is_told_once_where_the_next_box_does_but_lay_rows_side_by_side():
    assert list_told(Heard(), torch.rand(2, MELS, FRAMES)) == [
        (f"{MELS} LINES SIDE BY SIDE, CHANNEL BY CHANNEL: 5·6 = 30", "before it, in no box: mul")
    ]


def test_the_poster_has_the_words_of_it():
    layout = compose_poster(xray.trace(stack(torch.sin).eval(), torch.randn(2, 5, WIDTH)), text_width)

    lines = ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]
    assert "before it, in no box: silu, sin" in lines
