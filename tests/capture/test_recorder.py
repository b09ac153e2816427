"""The recorder: what it sees, in which order, and that it leaves no mark."""

import threading
from enum import StrEnum

import numpy as np
import pytest
import torch
from capture.shy import Broken, Shy
from torch import nn

import xray
from xray.capture.recorder import Recorder, record, trace
from xray.errors import TraceError
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.ir.trace import IN_PLACE_OF


class Forgiving(nn.Module):
    def __init__(self):
        super().__init__()
        self.broken = Broken()
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        try:
            return self.broken(x)
        except RuntimeError:
            return self.last(x)


def test_steps_stand_in_the_order_of_their_beginning():
    recorded = trace(Shy(), torch.ones(2, 5))

    assert [step.id for step in recorded.steps] == ["Shy#0", "first#0", "again#0", "again#1", "dropout#0"]


def test_blocks_are_the_parents_of_what_runs_inside_them():
    recorded = trace(Forgiving(), torch.ones(2, 5))

    assert {step.path: (step.parent, step.depth) for step in recorded.steps} == {
        "Forgiving": (None, 0),
        "broken": ("Forgiving#0", 1),
        "broken.fine": ("broken#0", 2),
        "broken.wrong": ("broken#0", 2),
        "last": ("Forgiving#0", 1),
    }


def test_each_call_of_a_module_is_a_step_of_its_own():
    steps = [step for step in trace(Shy(), torch.ones(2, 5)).steps if step.path == "again"]

    assert [(step.call, step.inputs[0].source) for step in steps] == [(0, "first#0"), (1, "again#0")]


def test_inputs_carry_the_names_of_forward_also_by_keyword():
    recorded = trace(Shy(), scale=torch.ones(7), x=torch.ones(2, 5))

    assert {record.name for record in recorded.steps[0].inputs} == {"x", "scale"}


def test_an_input_of_the_pass_has_no_source():
    assert trace(Shy(), torch.ones(2, 5)).steps[0].inputs[0].source is None


def test_a_tensor_handed_through_keeps_its_maker():
    recorded = trace(nn.Sequential(nn.Linear(5, 7), nn.Identity(), nn.ReLU()), torch.ones(2, 5))

    assert [step.inputs[0].source for step in recorded.steps][-1] == "0#0"


def test_parameters_are_counted_once():
    model = Shy()
    tied = nn.Sequential(model.again, model.again)

    assert [step.params for step in trace(tied, torch.ones(2, 7)).steps] == [56, 56, 56]


def test_parameters_that_are_trained_are_counted():
    model = Shy()
    model.again.weight.requires_grad_(False)
    tied = nn.Sequential(model.again, model.again, nn.ReLU())

    assert [step.trained for step in trace(tied, torch.ones(2, 7)).steps] == [7, 7, 7, None]


def test_a_parameter_that_is_read_says_whether_it_is_trained():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3), requires_grad=False)

        def forward(self, x):
            return x + self.first + self.second

    with torch.no_grad():
        root, *sums = trace(Adds(), torch.ones(3)).steps

    assert (root.params, root.trained) == (6, 3)
    assert [[one.trained for one in step.inputs] for step in sums] == [[None, True], [None, False]]


def test_the_location_is_the_line_that_made_the_call():
    location = next(step for step in trace(Shy(), torch.ones(2, 5)).steps if step.path == "first").location

    assert location is not None
    assert location.split(":")[0].endswith("shy.py")


def test_tuples_lists_dicts_and_named_outputs_are_opened():
    class Many(nn.Module):
        def forward(self, pair, table):
            return {"sum": pair[0] + pair[1], "list": [table["a"]]}

    recorded = trace(Many(), (torch.ones(2), torch.ones(2)), table={"a": torch.ones(3)}).steps[0]

    assert [record.name for record in recorded.inputs] == ["pair.0", "pair.1", "table.a"]
    assert [record.name for record in recorded.outputs] == ["sum", "list.0"]


def test_several_calls_are_several_passes():
    model = Shy()

    with record(model) as recorder:
        model(torch.ones(2, 5))
        model(torch.ones(3, 5))

    assert [(one.number, one.steps[0].inputs[0].shape) for one in recorder.trace.passes] == [(0, (2, 5)), (1, (3, 5))]


def test_modules_beside_the_model_can_be_given_by_name():
    model, criterion = Shy(), nn.MSELoss()

    with record(model, loss=criterion) as recorder:
        criterion(model(torch.ones(2, 5)), torch.zeros(2, 7))

    last = list(recorder.trace.steps)[-1]
    assert (last.id, last.outputs[0].role, last.inputs[0].name) == ("loss#0", "loss", "input")


def test_modules_of_others_are_not_recorded():
    model, other = Shy(), Shy()

    with record(model) as recorder:
        other(torch.ones(2, 5))

    assert list(recorder.trace.steps) == []


def test_other_threads_are_not_recorded():
    model = Shy()
    with record(model) as recorder:
        thread = threading.Thread(target=model, args=(torch.ones(2, 5),))
        thread.start()
        thread.join()

    assert list(recorder.trace.steps) == []


def test_nested_recordings_keep_apart():
    model = Shy()
    with record(model) as outer:
        with record(model.first) as inner:
            model(torch.ones(2, 5))
        model(torch.ones(2, 5))

    assert len(list(inner.trace.steps)) == 1
    assert len(outer.trace.passes) == 2


def test_an_exception_passes_through_unchanged_and_the_trace_holds_what_ran():
    model = Broken()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        model(torch.ones(2, 5))

    recorder = Recorder(model)
    with pytest.raises(RuntimeError) as recorded, recorder:
        model(torch.ones(2, 5))

    assert str(recorded.value) == str(caught.value)
    errors = {step.path: step.error for step in recorder.trace.steps}
    assert errors["fine"] is None
    assert errors["wrong"] is not None
    assert "mat1 and mat2 shapes" in errors["wrong"]


def test_an_exception_carries_the_trace_of_what_ran():
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        trace(Broken(), torch.ones(2, 5))

    assert [step.path for step in caught.value.xray_trace.steps] == ["Broken", "fine", "wrong"]  # type: ignore[attr-defined]


def test_an_exception_that_the_model_catches_ends_the_steps_it_broke():
    errors = {step.path: step.error for step in trace(Forgiving(), torch.ones(2, 5)).steps}

    assert errors["broken.wrong"] == errors["broken"]
    assert errors["broken"] is not None
    assert "mat1 and mat2 shapes" in errors["broken"]
    assert errors["last"] is None


def test_a_step_that_raised_still_shows_what_it_was_given():
    model = Broken()
    recorder = Recorder(model)
    with pytest.raises(RuntimeError), recorder:
        model(torch.ones(2, 5))

    wrong = next(step for step in recorder.trace.steps if step.path == "wrong")

    assert [(record.shape, record.source) for record in wrong.inputs] == [((2, 7), "fine#0")]


def test_what_is_no_module_is_refused():
    with pytest.raises(TraceError, match=r"^a function cannot be recorded\. Give a torch\.nn\.Module\."):
        xray.trace(lambda x: x, torch.ones(2))  # type: ignore[arg-type]


def test_inference_mode_and_no_grad_are_fine():
    model = Shy()
    with torch.inference_mode():
        inference = trace(model, torch.ones(2, 5))
    with torch.no_grad():
        no_grad = trace(model, torch.ones(2, 5))

    assert [step.id for step in inference.steps] == [step.id for step in no_grad.steps]


def test_the_meta_device_gives_the_same_shapes():
    real = trace(Shy(), torch.ones(2, 5))
    with torch.device("meta"):
        meta = trace(Shy(), torch.ones(2, 5))

    assert [s.outputs[0].shape for s in meta.steps] == [s.outputs[0].shape for s in real.steps]


def test_settings_of_any_type_come_back_from_json_as_they_were():
    class Kind(StrEnum):
        SOFT = "soft"

    class Name(str):
        pass

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.kind, self.name = np.sqrt(3), Kind.SOFT, Name("net")
            self.lowest, self.longest = float("-inf"), 10**30

        def forward(self, x):
            return x * self.scale + float("inf")

    trace = xray.trace(Odd(), torch.ones(2))

    assert trace_from_json(trace_to_json(trace)) == trace
    assert trace.passes[0].steps[0].settings == {
        "scale": pytest.approx(3**0.5),
        "kind": "soft",
        "name": "net",
        "lowest": "-inf",
        "longest": 10**30,
    }
    assert {type(value) for value in trace.passes[0].steps[0].settings.values()} == {str, int, float}


class Turning(nn.Module):
    """A layer that another one takes the place of while the model runs, and one beside it that is only made new."""

    def __init__(self):
        super().__init__()
        self.change, self.last = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x):
        if len(x) < 3:
            self.change = nn.Bilinear(5, 5, 7)  # type: ignore[assignment]
            self.extra = nn.Tanh()
            return self.extra(self.last(self.change(x, x)))
        return self.last(self.change(x))


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Turning()

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("model", [Turning, Around])
@pytest.mark.parametrize(("rows", "told"), [(2, ["Linear"]), (3, [])])
def test_a_module_that_takes_the_place_of_another_one_names_it(model, rows, told):
    steps = xray.trace(model(), torch.rand(rows, 5)).steps

    assert [step.settings[IN_PLACE_OF] for step in steps if IN_PLACE_OF in step.settings] == told
