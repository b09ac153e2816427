"""A recorded model is left as it was found: hooks, results, random numbers, modes, attributes, memory."""

import gc
import random
import weakref

import numpy as np
import pytest
import torch
from capture.shy import Broken, Shy
from torch import nn
from torch.nn.modules import module as torch_module

from xray.capture.recorder import Recorder, record, trace


def interrupt(*_):
    raise KeyboardInterrupt


def hook_counts():
    return (
        len(torch_module._global_forward_hooks),
        len(torch_module._global_forward_pre_hooks),
        len(torch_module._global_forward_hooks_with_kwargs),
    )


def test_no_hook_stays_behind_even_after_ctrl_c():
    before = hook_counts()
    model = Shy()
    model.again.register_forward_hook(interrupt)

    with pytest.raises(KeyboardInterrupt), record(model):
        model(torch.ones(2, 5))

    assert hook_counts() == before
    assert [len(module._forward_hooks) for module in model.modules()] == [0, 0, 1, 0]


def test_the_users_own_hooks_stay_and_run_in_their_order():
    model, seen = Shy(), []
    model.first.register_forward_hook(lambda *_: seen.append("one"))
    model.first.register_forward_hook(lambda *_: seen.append("two"))

    trace(model, torch.ones(2, 5))

    assert seen == ["one", "two"]
    assert len(model.first._forward_hooks) == 2


def test_outputs_and_gradients_are_the_same_bit_for_bit():
    model, x = Shy(), torch.randn(3, 5)

    def run():
        model.zero_grad()
        torch.manual_seed(3)
        out = model(x)
        out.square().sum().backward()
        return out.detach().clone(), [p.grad.clone() for p in model.parameters()]

    plain_out, plain_grads = run()
    with record(model):
        out, grads = run()

    assert torch.equal(plain_out, out)
    assert all(torch.equal(a, b) for a, b in zip(plain_grads, grads, strict=True))


def test_random_state_ends_where_an_unrecorded_run_ends():
    model, x = Shy(), torch.ones(2, 5)
    torch.manual_seed(3)
    model(x)
    expected = torch.get_rng_state()
    numpy_state, python_state = np.random.get_state()[1].tolist(), random.getstate()

    torch.manual_seed(3)
    trace(model, x)

    assert torch.equal(torch.get_rng_state(), expected)
    assert np.random.get_state()[1].tolist() == numpy_state
    assert random.getstate() == python_state


def test_train_and_eval_flags_stay_mixed():
    model = Shy()
    model.dropout.eval()

    trace(model, torch.ones(2, 5))

    assert [module.training for module in model.modules()] == [True, True, True, False]


def test_no_attribute_is_added_to_a_module():
    model = Shy()
    before = [sorted(vars(module)) for module in model.modules()]

    trace(model, torch.ones(2, 5))

    assert [sorted(vars(module)) for module in model.modules()] == before


def test_no_tensor_is_kept_alive():
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU())
    seen = []
    model[0].register_forward_hook(lambda _m, _i, out: seen.append(weakref.ref(out)))

    with record(model) as recorder:
        model(torch.ones(2, 5)).sum().item()
    gc.collect()

    assert seen[0]() is None
    assert [step.id for step in recorder.trace.steps] == ["Sequential#0", "0#0", "1#0", "sum#0"]


def test_no_module_is_kept_alive():
    model = Broken()
    recorder = Recorder(model)
    with pytest.raises(RuntimeError), recorder:
        model(torch.ones(2, 5))
    gone = weakref.ref(model)

    del model
    gc.collect()

    assert gone() is None
    assert recorder.trace.steps


def test_the_model_still_can_be_copied_and_saved(tmp_path):
    import copy

    model = Shy()
    trace(model, torch.ones(2, 5))

    copied = copy.deepcopy(model)

    assert copied.state_dict().keys() == model.state_dict().keys()
