"""Rows whose halves are stacked to be turned as complex numbers, and parted and laid side by side behind (Gemma)."""

import pytest
import torch
from story.body import test_rotary_bases
from story.body.test_rotary_bases import PLACES, LookNormed, Turned, make_powers, turn_as_complex
from torch import nn

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.sentences.attentions.of_places import describe_rotary


def turn(x, pairs, angles):
    turned = torch.view_as_complex(torch.stack(pairs, -1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat(torch.view_as_real(turned).chunk(2, -1), -2).reshape(x.shape)


def turn_halves(x, angles):
    return turn(x, x.chunk(2, -1), angles)


def turn_every_other(x, angles):
    return turn(x, (x[..., ::2], x[..., 1::2]), angles)


def turn_rows_of_two(x, angles):
    """Of each of two rows one number: laid out in two rows, which become the last axis."""
    turned = torch.view_as_complex(x.unflatten(-1, (2, -1)).transpose(-1, -2).contiguous())
    return torch.view_as_real(turned * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        (turn_halves, " They turn in pairs of one number from each half."),
        (turn_every_other, " They turn in pairs of neighbouring numbers."),
        (turn_as_complex, " They turn in pairs of neighbouring numbers."),
        (turn_rows_of_two, ""),
    ],
)
def test_which_numbers_become_one_complex_number_is_told(monkeypatch, way, told):
    monkeypatch.setitem(test_rotary_bases.TURNS, "complex", way)
    found = anatomy(xray.trace(Turned(torch.ones(7), pairs="complex").eval(), torch.zeros(2, PLACES, dtype=torch.long)))

    assert {one.positions for one in found.towers[0].branches if isinstance(one, Attention)} == {"rotary"}
    assert describe_rotary(found).split("their place.")[1] == told


def test_halves_that_are_stacked_to_be_turned_are_no_heads(monkeypatch):
    monkeypatch.setitem(test_rotary_bases.TURNS, "complex", turn_halves)
    model = Turned(make_powers(100.0), pairs="complex")
    model.look = nn.ModuleList([LookNormed(make_powers(100.0), "complex")])
    reading = read_pass(xray.trace(model.eval(), torch.zeros(2, PLACES, dtype=torch.long)).passes[0])

    nodes = chart_stage(reading.flow, reading.towers[0].layers[0][0]).nodes
    queries = [node for node in nodes if node.label.endswith(" Q")]
    assert [node.label for node in queries] == ["NORM Q", "ROTATE Q"]
    assert [step.op for step in queries[-1].steps].count("chunk") == 2
