"""A committed trace as a fixture for somebody's own tests."""

import re

import pytest
import torch
from torch import nn

import xray
from xray.testing import assert_same_shapes


def trace_of(width):
    return xray.trace(nn.Sequential(nn.Linear(3, width), nn.Linear(width, 2)), torch.ones(5, 3))


def test_the_first_time_writes_the_fixture(tmp_path):
    assert_same_shapes(trace_of(7), tmp_path / "model.json")

    assert xray.read_trace(str(tmp_path / "model.json")) == trace_of(7)


def test_the_same_shapes_pass(tmp_path):
    assert_same_shapes(trace_of(7), tmp_path / "model.json")
    before = (tmp_path / "model.json").read_text()

    assert_same_shapes(trace_of(7), tmp_path / "model.json")

    assert (tmp_path / "model.json").read_text() == before


def test_another_shape_fails_and_names_the_first_step(tmp_path):
    assert_same_shapes(trace_of(7), tmp_path / "model.json")

    with pytest.raises(AssertionError, match=re.escape("forward: shape at 0#0, out: 5x7 -> 5x11")):
        assert_same_shapes(trace_of(11), tmp_path / "model.json")


def test_an_update_can_be_asked_for(tmp_path, monkeypatch):
    assert_same_shapes(trace_of(7), tmp_path / "model.json")
    monkeypatch.setenv("XRAY_UPDATE_FIXTURES", "1")

    assert_same_shapes(trace_of(11), tmp_path / "model.json")

    assert xray.read_trace(str(tmp_path / "model.json")) == trace_of(11)
