"""Models that break tracers: recorded as far as they can be seen, and found afterwards as they were before."""

import copy
import dataclasses
import gc
import pickle
import sys
import threading
import weakref
from collections import namedtuple
from typing import TypedDict

import pytest
import torch
from capture.hard_models import Model, ops
from capture_invariants import Snapshot, run_twice
from torch import nn
from torch.nn import functional

from xray.capture.recorder import record, trace

HEARD: list[str] = []


class Loud(torch.Tensor):
    """A tensor that notes every torch function it is asked for."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        HEARD.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs)


def test_a_tensor_subclass_keeps_its_type_and_hears_nothing_more():
    model, x = Model(lambda x: (x + 1).mul(2)), torch.ones(2, 3).as_subclass(Loud)
    HEARD.clear()
    model(x)
    plain = list(HEARD)

    HEARD.clear()
    with record(model) as recorder:
        out = model(x)

    assert type(out) is Loud
    assert plain == HEARD
    assert ops(recorder.trace) == ["model", "add", "mul"]


def test_a_function_mode_of_the_users_hears_nothing_more():
    class Counting(torch.overrides.TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.heard = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.heard.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    model, x = nn.Sequential(nn.Linear(3, 3), Model(lambda x: x.softmax(-1) + 1)), torch.ones(2, 3)
    with Counting() as plain:
        model(x)
    with Counting() as recorded, record(model):
        model(x)

    assert recorded.heard == plain.heard


def test_a_dispatch_mode_of_the_users_counts_nothing_more():
    from torch.utils.flop_counter import FlopCounterMode

    def attend(q, attn_mask):
        return functional.scaled_dot_product_attention(q, q, q, attn_mask=attn_mask)

    model, given = Model(attend), (torch.randn(1, 2, 5, 4), torch.ones(1, 1, 5, 5, dtype=torch.bool))
    with FlopCounterMode(display=False) as plain:
        model(*given)
    with FlopCounterMode(display=False) as recorded, record(model):
        model(*given)

    assert recorded.get_total_flops() == plain.get_total_flops()


def test_a_hook_that_changes_the_output_is_seen_in_what_the_next_module_gets():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU())
    model[0].register_forward_hook(lambda _module, _args, out: out.repeat(2, 1))

    steps = {step.id: step for step in run_twice(model, torch.ones(2, 3)).steps}

    assert steps["1#0"].inputs[0].shape == (4, 5)


def test_a_pre_hook_that_changes_keywords_shows_what_forward_got():
    model = Model(lambda x, scale: x * scale)
    model.register_forward_pre_hook(lambda _module, args, kwargs: (args, {"scale": torch.ones(7, 3)}), with_kwargs=True)

    top = run_twice(model, torch.ones(1, 3), scale=torch.ones(3)).steps[0]

    assert {record.name: record.shape for record in top.inputs}["scale"] == (7, 3)


def test_an_exception_in_a_hook_passes_and_the_step_says_so():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def refuse(*_):
        raise ZeroDivisionError("no")

    model[1].register_forward_hook(refuse)
    with Snapshot(model).held(), pytest.raises(ZeroDivisionError) as caught:
        trace(model, torch.ones(2, 3))

    assert {step.path: step.error for step in caught.value.xray_trace.steps} == {  # type: ignore[attr-defined]
        "Sequential": "ZeroDivisionError: no",  # the layer itself had returned
        "0": None,
        "1": None,
    }


def test_ctrl_c_in_the_forward_leaves_everything_as_found():
    def interrupt(x):
        raise KeyboardInterrupt

    model = nn.Sequential(nn.Linear(3, 3), Model(interrupt))
    recorder = record(model)
    with Snapshot(model).held(), pytest.raises(KeyboardInterrupt), recorder:
        model(torch.ones(2, 3))

    assert [step.error for step in recorder.trace.steps][-1] == "KeyboardInterrupt: "


def test_a_generator_as_output_stays_a_generator_and_works_later():
    model = Model(lambda x: (x * n for n in (1, 2)))
    with record(model) as recorder:
        first = next(generator := model(torch.ones(2)))
    second = next(generator)

    assert (first.tolist(), second.tolist()) == ([1, 1], [2, 2])
    assert "mul" in ops(recorder.trace)


def test_a_thousand_nested_modules_need_no_more_recursion_than_any_hook_of_torch():
    model: nn.Module = nn.Linear(2, 2)
    for _ in range(1000):
        model = nn.Sequential(model)
    limit, old_size = sys.getrecursionlimit(), threading.stack_size(512 * 1024 * 1024)
    found = []

    def run():
        sys.setrecursionlimit(5_100)  # as much as torch takes for so many levels with a global hook of its own
        try:
            found.append(len(list(trace(model, torch.ones(1, 2)).steps)))
        finally:
            sys.setrecursionlimit(limit)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    threading.stack_size(old_size)

    assert found == [1001]


def test_modules_that_come_and_go_during_the_forward_are_seen():
    class Shifting(nn.Module):
        def __init__(self):
            super().__init__()
            self.old = nn.Linear(3, 5)

        def forward(self, x):
            x = self.old(x)
            del self.old
            self.new = nn.Linear(5, 7)
            return self.new(x)

    steps = list(trace(Shifting(), torch.ones(2, 3)).steps)

    called = [(step.module, step.params) for step in steps if step.module]
    assert called == [("Shifting", 20), ("Linear", 20), ("Linear", 42)]


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_modules_become_what_they_would_and_are_counted():
    model = nn.Sequential(nn.LazyLinear(5), nn.ReLU())

    step = list(trace(model, torch.ones(2, 3)).steps)[1]

    assert type(model[0]) is nn.Linear
    assert (step.outputs[0].shape, step.params) == ((2, 5), 20)


def test_deepcopy_and_pickle_work_while_a_recording_is_open():
    model = nn.Sequential(nn.Linear(3, 3), nn.MultiheadAttention(4, 2))
    with record(model):
        model[0](torch.ones(2, 3))
        copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))

    for other in (copied, pickled):
        assert other.state_dict().keys() == model.state_dict().keys()
        assert all(not module._forward_hooks for module in other.modules())


Point = namedtuple("Point", "left right")


class Table(TypedDict):
    scores: torch.Tensor


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    hidden: tuple
    nothing: None = None


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda x: Point(x + 1, x + 2), ["left", "right"]),
        (lambda x: Table(scores=x + 1), ["scores"]),
        (lambda x: Answer(x + 1, (x + 2, x + 3)), ["logits", "hidden.0", "hidden.1"]),
        (lambda x: [[x + 1], {"a": x + 2}], ["out.0.0", "out.1.a"]),
        (lambda x: None, []),
    ],
    ids=["namedtuple", "typeddict", "dataclass", "nested", "none"],
)
def test_outputs_of_any_form_are_opened_and_keep_their_type(make, names):
    model, x = Model(make), torch.ones(2)
    with record(model) as recorder:
        out = model(x)

    assert type(out) is type(make(x))
    assert [record.name for record in recorder.trace.steps[0].outputs] == names


def test_a_container_that_holds_itself_ends_the_search():
    def loop(x):
        held = [x + 1]
        held.append(held)
        return held

    assert trace(Model(loop), torch.ones(2)).steps[0].outputs[0].name == "out.0"


def test_an_object_whose_attributes_raise_is_passed_over():
    class Trap:
        def __getattr__(self, name):
            raise RuntimeError("touched")

    model = Model(lambda x, trap: x + 1)

    assert ops(trace(model, torch.ones(2), Trap())) == ["model", "add"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_in_place_changes_reach_every_view_in_every_grad_mode(mode):
    def change(x):
        y = x * 2
        view = y.view(-1)
        y[0] = 7
        y.add_(1)
        return view * 3, y * 4

    with mode():
        steps = {step.id: step for step in trace(Model(change), torch.ones(2, 3)).steps}

    assert steps["Model.mul#1"].inputs[0].source == "Model.add_#0"
    assert steps["Model.mul#2"].inputs[0].source == "Model.add_#0"


def test_an_output_made_in_place_comes_from_the_last_change():
    def change(x):
        y = x.clone()
        y.add_(1)
        y[0] = 7
        return y

    top = trace(Model(change), torch.ones(3)).steps[0]

    assert top.outputs[0].source == "Model.index_put_#0"


def test_recursion_through_the_same_module_numbers_its_calls():
    class Again(nn.Module):
        def forward(self, x, depth=3):
            return x if depth == 0 else self(x + 1, depth - 1)

    steps = [step for step in run_twice(Again(), torch.ones(2)).steps if step.path == "Again"]

    assert [(step.call, step.depth) for step in steps] == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_forwards_with_only_keywords_are_fine():
    class Keyed(nn.Module):
        def forward(self, *, left, right=None):
            return left if right is None else left + right

    top = run_twice(Keyed(), left=torch.ones(2), right=torch.ones(2)).steps[0]

    assert [record.name for record in top.inputs] == ["left", "right"]


def test_hostile_names_are_kept_as_they_are():
    model = nn.Module()
    model.add_module("</script><b>\x1b[31m", nn.Linear(2, 2))
    model.forward = lambda x: next(model.children())(x)

    assert list(trace(model, torch.ones(1, 2)).steps)[1].path == "</script><b>\x1b[31m"


def test_nothing_is_kept_alive_by_a_recorder_that_is():
    made = []

    def note(x):
        y = x * 2
        made.append(weakref.ref(y))
        return y + 1

    model = Model(note)
    recorder = record(model)
    with recorder:
        out = model(torch.ones(3))
        made.append(weakref.ref(out))
    del out
    gone = weakref.ref(model)
    del model

    assert [one() for one in made] == [None, None]
    assert gone() is None
    assert ops(recorder.trace) == ["model", "mul", "add"]


def test_a_recording_leaves_nothing_in_circles():
    model = nn.Sequential(nn.Linear(3, 3), Model(lambda x: functional.scaled_dot_product_attention(x, x, x)))
    gc.collect()
    gc.disable()
    try:
        with record(model) as recorder:
            model(torch.ones(2, 5, 3))
        journal = weakref.ref(recorder._journal)
        del recorder
        assert journal() is None
    finally:
        gc.enable()
