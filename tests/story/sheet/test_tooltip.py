"""What a step says when it is pointed at."""

from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import linear

import xray
from xray.story.sheet.tooltip import describe


def test_a_tooltip_tells_all_that_is_known(training_trace):
    step = training_trace.passes[0].by_id["encoder.layers.0.self_attention.query#0"]

    text = describe([(0, step)])

    assert text.startswith(
        "encoder.layers.0.self_attention.query\ninput 8×10×32 (batch × src_len × d_model) → out 8×10×32"
    )
    assert "1,056 parameters · float32" in text


class Shares(nn.Module):
    """A layer, and a function that is given its weights once more."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 5, bias=False)

    def forward(self, x):
        return self.layer(x) + linear(x.relu(), self.layer.weight)


def test_parameters_are_those_that_a_function_is_given_too_and_of_none_nothing_is_said():
    steps = xray.trace(Shares(), torch.rand(2, 3)).passes[0].by_id

    assert "Linear · 15 parameters · float32" in describe([(0, steps["layer#0"])])
    assert "\n15 parameters · float32" in describe([(0, steps["Shares.linear#0"])])
    assert "parameter" not in describe([(0, steps["Shares.relu#0"])])


def test_of_many_inputs_the_first_few_are_told(training_trace):
    step = training_trace.passes[0].by_id["encoder.layers.0.self_attention.query#0"]

    text = describe([(0, replace(step, inputs=step.inputs * 11))])

    assert text.count("input 8×10×32") == 8
    assert " and 3 more → out 8×10×32" in text
