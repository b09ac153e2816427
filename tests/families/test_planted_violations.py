"""The checks of this folder can fail: a recorder that does damage is found out, and so is a record with holes."""

import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from families.data_flow import find_gaps, find_unreached
from families.invariants import call_with_gradients, find_changes
from families.specimens import BY_NAME
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from xray.capture.recorder import record

SPECIMEN = BY_NAME["BERT"]


def caught(watch, *, training=True):
    return find_changes(SPECIMEN.build, SPECIMEN.make_inputs, training=training, watch=watch)


def first_linear(model):
    return next(module for module in model.modules() if isinstance(module, nn.Linear))


def after_recording(damage):
    """A recorder that does its work, and then some damage."""

    @contextmanager
    def watch(model):
        with record(model) as recorder:
            yield recorder
        damage(model)

    return watch


def before_recording(damage):
    @contextmanager
    def watch(model):
        damage(model)
        with record(model) as recorder:
            yield recorder

    return watch


DAMAGES = {
    "a hook left on a module": (lambda model: first_linear(model).register_forward_hook(lambda *_: None), "hooks"),
    "a pre-hook left on a module": (
        lambda model: first_linear(model).register_forward_pre_hook(lambda *_: None),
        "hooks",
    ),
    "a backward hook left on a module": (
        lambda model: first_linear(model).register_full_backward_hook(lambda *_: None),
        "hooks",
    ),
    "a random number of torch": (lambda _: torch.rand(1), "random.torch"),
    "a random number of numpy": (lambda _: np.random.rand(), "random.numpy"),
    "a seed": (lambda _: torch.manual_seed(0), "random.torch"),
    "evaluation for all modules": (lambda model: model.eval(), "training"),
    "one mode for all modules": (lambda model: model.train(), "training"),
    "an attribute on a module": (lambda model: setattr(first_linear(model), "_xray", 1), ".keys"),
    "a weight nudged by the last bit": (
        lambda model: first_linear(model).weight.data.view(torch.int32)[0, 0].add_(1),
        "state_dict",
    ),
    "a parameter frozen": (lambda model: first_linear(model).weight.requires_grad_(False), "_parameters.weight"),
    "a gradient changed": (lambda model: first_linear(model).weight.grad.mul_(1.5), "gradient"),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", DAMAGES)
def test_damage_to_the_model_is_found(name):
    damage, told = DAMAGES[name]

    assert any(told in change for change in caught(after_recording(damage)))


def test_a_recorder_that_does_no_damage_is_not_accused():
    assert caught(after_recording(lambda _: None)) == []


def test_a_random_number_drawn_before_the_model_runs_is_found_in_the_results():
    changes = caught(before_recording(lambda _: torch.rand(1)))

    assert any(change.startswith("result.") for change in changes)


def test_gradients_switched_off_during_the_call_are_found():
    @contextmanager
    def watch(model):
        with torch.no_grad(), record(model) as recorder:
            yield recorder

    assert any(change.startswith("gradient.") for change in caught(watch))


def test_evaluation_during_the_call_is_found_in_the_results():
    @contextmanager
    def watch(model):
        modes = [module.training for module in model.modules()]
        model.eval()
        with record(model) as recorder:
            yield recorder
        for module, mode in zip(model.modules(), modes, strict=True):
            module.training = mode

    assert any(change.startswith("result.") for change in caught(watch))


def test_the_users_hooks_switched_off_are_found():
    @contextmanager
    def watch(model):
        kept = {module: module._forward_hooks.copy() for module in model.modules()}
        for module in kept:
            module._forward_hooks.clear()
        with record(model) as recorder:
            yield recorder
        for module, hooks in kept.items():
            module._forward_hooks.update(hooks)

    assert "order of the user's hooks" in caught(watch)


def test_a_tensor_kept_alive_is_found():
    kept = []

    @contextmanager
    def watch(model):
        handle = first_linear(model).register_forward_hook(lambda _m, _i, out: kept.append(out))
        with record(model) as recorder:
            yield recorder
        handle.remove()

    assert "activations alive" in caught(watch, training=False)


def test_an_attribute_on_an_input_is_found():
    @contextmanager
    def watch(model):
        def mark(_module, _args, kwargs):
            kwargs["input_ids"].seen = True

        handle = model.register_forward_pre_hook(mark, with_kwargs=True)
        with record(model) as recorder:
            yield recorder
        handle.remove()

    assert any("input_ids.attributes" in change for change in caught(watch))


SWITCHES = {
    "a global hook of torch": (lambda: register_module_forward_hook(lambda *_: None), lambda handle: handle.remove()),
    "a hook of the optimisers": (
        lambda: register_optimizer_step_pre_hook(lambda *_: None),
        lambda handle: handle.remove(),
    ),
    "grad mode": (lambda: torch._C._set_grad_enabled(False), lambda _: torch._C._set_grad_enabled(True)),
    "anomaly detection": (
        lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
        lambda _: torch.autograd.set_detect_anomaly(False),
    ),
    "the fast path": (
        lambda: torch.backends.mha.set_fastpath_enabled(False),
        lambda _: torch.backends.mha.set_fastpath_enabled(True),
    ),
    "a warning filter": (lambda: warnings.simplefilter("ignore"), lambda _: warnings.resetwarnings()),
    "the recursion limit": (
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
        lambda _: sys.setrecursionlimit(sys.getrecursionlimit() - 1),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_left_turned_is_found(name):
    turn, back = SWITCHES[name]
    undo = []

    with warnings.catch_warnings():
        changes = caught(after_recording(lambda _: undo.append(turn())), training=False)
        back(undo[0])

    assert any(change.startswith("surroundings.") for change in changes)


@pytest.fixture(scope="module")
def recorded():
    model, inputs = SPECIMEN.build(), SPECIMEN.make_inputs()
    with record(model) as recorder:
        call_with_gradients(model, inputs)
    return recorder.trace, model


def with_source(trace, change):
    """The trace with the first activation that a step reads made to come from somewhere else."""
    one_pass = trace.passes[0]
    place = next(n for n, step in enumerate(one_pass.steps) if step.inputs and step.inputs[0].shape == (2, 11, 35))
    step = one_pass.steps[place]
    broken = replace(step, inputs=(replace(step.inputs[0], source=change(one_pass, place)), *step.inputs[1:]))
    steps = (*one_pass.steps[:place], broken, *one_pass.steps[place + 1 :])
    return replace(trace, passes=(replace(one_pass, steps=steps), *trace.passes[1:]))


BROKEN_SOURCES = {
    "from nowhere": lambda _, __: None,
    "which is no step": lambda _, __: "nobody#0",
    "which comes later": lambda one_pass, _: one_pass.steps[-1].id,
}


@pytest.mark.parametrize("told", BROKEN_SOURCES)
def test_a_broken_source_is_found(recorded, told):
    trace, model = recorded

    assert any(told in gap for gap in find_gaps(with_source(trace, BROKEN_SOURCES[told]), model))


def test_a_missing_step_is_found(recorded):
    trace, model = recorded
    one_pass = trace.passes[0]
    steps = tuple(step for step in one_pass.steps if not step.path.endswith("layer.1.output.dense"))

    assert find_gaps(replace(trace, passes=(replace(one_pass, steps=steps),)), model)


def test_a_way_that_ends_too_early_is_found(recorded):
    trace, model = recorded
    one_pass = trace.passes[0]
    steps = tuple(
        replace(step, inputs=tuple(replace(one, source=None) for one in step.inputs))
        if "layer.1.output" in step.path
        else step
        for step in one_pass.steps
    )

    assert "bert.encoder.layer.0.output.dense" in find_unreached(
        replace(trace, passes=(replace(one_pass, steps=steps),)), model
    )
