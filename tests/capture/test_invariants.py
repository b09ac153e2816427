"""The check of what a recording may not change finds every violation that is planted."""

import random

import numpy as np
import pytest
import torch
from capture_invariants import Snapshot, is_same
from torch import nn
from torch.nn.modules.module import register_module_forward_hook


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))


def set_attribute(model):
    model[0].left_behind = 1


def add_hook(model):
    model[0].register_forward_hook(lambda *_: None)


def change_weight(model):
    with torch.no_grad():
        model[0].weight.add_(1e-6)


def move_statistics(model):
    model[1](torch.ones(2, 5))


def touch_weight(model):
    with torch.no_grad():
        model[0].weight.add_(0)


PLANTED = {
    "train and eval flags": lambda model: model[2].eval(),
    "attributes": set_attribute,
    "hooks of modules": add_hook,
    "tensors": change_weight,
    "versions": touch_weight,
    "classes": lambda model: setattr(model[2], "__class__", nn.Identity),
    "random state": lambda model: torch.rand(1),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_change_is_found_by_its_name(model, name):
    snapshot = Snapshot(model)

    PLANTED[name](model)

    assert name in snapshot.changes()


def test_moved_statistics_are_found(model):
    snapshot = Snapshot(model)

    move_statistics(model)

    assert "tensors" in snapshot.changes()


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_numbers_drawn_elsewhere_are_found(model, draw):
    snapshot = Snapshot(model)

    draw()

    assert snapshot.changes() == ["random state"]


def test_a_global_hook_is_found(model):
    snapshot = Snapshot(model)
    handle = register_module_forward_hook(lambda *_: None)

    found = snapshot.changes()
    handle.remove()

    assert found == ["global hooks"]


def test_settings_are_found(model):
    snapshot = Snapshot(model)

    with torch.no_grad():
        found = snapshot.changes()

    assert found == ["settings"]


def test_a_mode_left_on_is_found(model):
    snapshot = Snapshot(model)

    with torch.device("meta"):
        found = snapshot.changes()

    assert "modes" in found


def test_nothing_done_is_nothing_found(model):
    snapshot = Snapshot(model)

    model.eval().train()

    assert snapshot.changes() == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(1, 2)),
        (torch.ones(2), torch.tensor([1.0, 1.0 + 1e-7])),
        ([torch.ones(1)], [torch.ones(1), torch.ones(1)]),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)}),
    ],
)
def test_outputs_that_differ_are_not_the_same(one, other):
    assert not is_same(one, other)
