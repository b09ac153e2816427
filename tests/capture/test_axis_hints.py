"""Words that the caller gives for the axes of inputs."""

import pytest
import torch
from torch import nn

import xray
from xray.errors import TraceError


class Mixer(nn.Module):
    """Nothing here that would tell which axis is which."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(5, 5)

    def forward(self, x, other=None):
        x = self.wide(x).transpose(0, 1)
        return x if other is None else x + other.transpose(0, 1)


X = torch.ones(5, 5, 5)


def outputs(trace):
    return {step.id: step.outputs[0].axes for step in trace.steps}


def test_words_spread_along_the_data_also_when_all_sizes_are_equal():
    found = outputs(xray.trace(Mixer(), X, axes={"x": ("batch", "time", "features")}))

    assert found == {
        "Mixer#0": ("time", "batch", ""),
        "wide#0": ("batch", "time", ""),
        "Mixer.transpose#0": ("time", "batch", ""),
    }


def test_an_input_may_be_named_by_its_place():
    by_place = outputs(xray.trace(Mixer(), X, axes={0: ("batch", "time", "features")}))

    assert by_place["wide#0"] == ("batch", "time", "")


def test_recordings_take_the_same_words():
    model = Mixer()
    with xray.record(model, axes={"x": ("batch", "time", "features")}) as recorder:
        model(X)

    assert outputs(recorder.trace)["wide#0"] == ("batch", "time", "")


def test_a_wrong_number_of_words_is_refused_before_the_model_runs():
    model = Mixer()
    model.wide.register_forward_hook(lambda *_: pytest.fail("it ran"))

    with pytest.raises(TraceError, match=r"axes\['x'\] has 2 words \(batch, time\), but x has 3 axes: \(5, 5, 5\)\."):
        xray.trace(model, X, axes={"x": ("batch", "time")})


def test_an_unknown_input_is_refused_with_those_there_are():
    with pytest.raises(TraceError, match=r"axes names an input 'y' that is not there\. There are: x\."):
        xray.trace(Mixer(), X, axes={"y": ("batch", "time", "features")})


def test_a_place_that_is_not_there_is_refused():
    with pytest.raises(TraceError, match=r"axes has words for input 2, but Mixer takes 2\."):
        xray.trace(Mixer(), X, axes={2: ("batch",)})


def test_one_text_instead_of_words_is_refused():
    with pytest.raises(TraceError, match=r"axes\['x'\] is 'batch'\. Give a word for each axis"):
        xray.trace(Mixer(), X, axes={"x": "batch"})


def test_an_empty_word_leaves_an_axis_unnamed():
    found = outputs(xray.trace(Mixer(), X, axes={"x": ("", "time", "")}))

    assert found["wide#0"] == ("", "time", "")


class Rolling(nn.Module):
    """A forward with an argument of its own called axes."""

    def forward(self, x, axes):
        return x.sum(tuple(axes))


@pytest.mark.parametrize("axes", [(0, 1), {0: "rows", 1: "columns"}])
def test_a_model_with_an_argument_called_axes_gets_it(axes):
    trace = xray.trace(Rolling(), X, axes=axes)

    assert trace.steps[0].outputs[0].shape == (5,)


def test_a_model_with_an_argument_called_axes_takes_words_from_record():
    model = Rolling()
    with xray.record(model, axes={"x": ("batch", "time", "features")}) as recorder:
        model(X, axes=(0,))

    assert recorder.trace.steps[0].outputs[0].axes == ("time", "features")


def test_a_module_beside_the_model_may_be_called_axes():
    model, beside = Mixer(), nn.ReLU()
    with xray.record(model, axes=beside) as recorder:  # type: ignore[arg-type]
        beside(model(X))

    assert list(recorder.trace.steps)[-1].path == "axes"
