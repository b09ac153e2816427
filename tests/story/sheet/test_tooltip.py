"""What a step says when it is pointed at."""

from dataclasses import replace

import torch
from recorded import recorded
from torch import nn
from torch.nn.functional import conv1d, linear

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.canvas import look
from xray.story.sheet.canvas.tooltip import describe


def test_a_tooltip_tells_all_that_is_known(training_trace):
    one_pass = training_trace.passes[0]
    step = one_pass.by_id["encoder.layers.0.self_attention.query#0"]

    text = describe([(one_pass, step)])

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
    one_pass = xray.trace(Shares(), torch.rand(2, 3)).passes[0]
    steps = one_pass.by_id

    assert "Linear · 15 parameters · float32" in describe([(one_pass, steps["layer#0"])])
    assert "\n15 parameters · float32" in describe([(one_pass, steps["Shares.linear#0"])])
    assert "parameter" not in describe([(one_pass, steps["Shares.relu#0"])])


class Convolves(nn.Module):
    """A convolution whose weight is laid out anew for the call, and whose bias is given as it is."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(5, 5, 3, groups=5)

    def forward(self, x):
        return conv1d(x, self.layer.weight.squeeze(1).unsqueeze(1), self.layer.bias, groups=5)


def test_parameters_that_were_moved_on_their_way_to_a_function_count_beside_those_that_were_not():
    one_pass = xray.trace(Convolves(), torch.rand(2, 5, 7)).passes[0]

    assert "\n20 parameters · float32" in describe([(one_pass, one_pass.by_id["Convolves.conv1d#0"])])


def test_of_many_inputs_the_first_few_are_told(training_trace):
    one_pass = training_trace.passes[0]
    step = one_pass.by_id["encoder.layers.0.self_attention.query#0"]

    text = describe([(one_pass, replace(step, inputs=step.inputs * 11))])

    assert text.count("input 8×10×32") == 8
    assert " and 3 more → out 8×10×32" in text


def test_a_tooltip_of_very_many_steps_tells_of_the_first_ones_and_how_many_more_there_are(monkeypatch):
    monkeypatch.setattr(look, "MOST_TOLD", 2)
    boxes = compose_poster(recorded("GPT-2, inference"), text_width).boxes
    long = [box for box in boxes if len(box.steps) > 2]

    assert long
    assert all((box.tooltip or "").endswith(f"and {len(box.steps) - 2} more steps") for box in long)
