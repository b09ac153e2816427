"""A committed trace as a fixture for somebody's own tests."""

import re

import pytest
import torch
from story.alarms.planted import reach
from story.alarms.planted.pairs import PAIRS, trace_pair
from torch import nn

import xray
from xray.testing import assert_masks_reach, assert_same_shapes


def trace_of(width):
    return xray.trace(nn.Sequential(nn.Linear(3, width), nn.Linear(width, 2)), torch.ones(5, 3))


@pytest.fixture
def fixture(tmp_path, monkeypatch):
    """A file with the shapes of a model 7 wide, written as a user writes it."""
    monkeypatch.setenv("XRAY_UPDATE_FIXTURES", "1")
    assert_same_shapes(trace_of(7), tmp_path / "shapes" / "model.json")
    monkeypatch.delenv("XRAY_UPDATE_FIXTURES")
    return tmp_path / "shapes" / "model.json"


def test_an_update_writes_the_fixture_and_its_folder(fixture):
    assert xray.read_trace(str(fixture)) == trace_of(7)


def test_a_missing_fixture_fails_and_tells_how_to_write_it(tmp_path):
    with pytest.raises(AssertionError, match=r"there is no fixture .*model.json .* XRAY_UPDATE_FIXTURES=1 pytest"):
        assert_same_shapes(trace_of(7), tmp_path / "model.json")


def test_a_missing_fixture_is_not_made_by_the_way(tmp_path):
    with pytest.raises(AssertionError):
        assert_same_shapes(trace_of(7), tmp_path / "model.json")

    assert not (tmp_path / "model.json").exists()


def test_the_same_shapes_pass_and_leave_the_fixture_alone(fixture):
    before = fixture.read_text()

    assert_same_shapes(trace_of(7), fixture)

    assert fixture.read_text() == before


def test_another_shape_fails_and_names_the_first_step(fixture):
    with pytest.raises(AssertionError, match=re.escape("forward: shape at 0#0, out: 5x7 -> 5x11")):
        assert_same_shapes(trace_of(11), fixture)


def test_a_failure_names_the_model_and_tells_what_to_do(fixture):
    with pytest.raises(AssertionError, match=r"(?s)^Sequential does not do .*XRAY_UPDATE_FIXTURES=1 pytest$"):
        assert_same_shapes(trace_of(11), fixture)


def test_an_update_can_be_asked_for(fixture, monkeypatch):
    monkeypatch.setenv("XRAY_UPDATE_FIXTURES", "1")

    assert_same_shapes(trace_of(11), fixture)

    assert xray.read_trace(str(fixture)) == trace_of(11)


@pytest.fixture
def masked():
    bug = next(one for one in PAIRS if one.place is reach.leave_one_out)
    return {"sound": trace_pair(bug, bug.good), "faulty": trace_pair(bug, bug.bad)}


def test_masks_that_reach_their_attention_pass(masked):
    assert_masks_reach(masked["sound"], "attention_mask")


def test_a_mask_that_misses_a_layer_fails_and_is_told_with_its_line(masked):
    with pytest.raises(AssertionError, match=r"pairs.py:\d+: some layers: attention_mask \(3, 7\) reaches 2 of 3"):
        assert_masks_reach(masked["faulty"])


def test_a_name_that_is_no_mask_fails(masked):
    with pytest.raises(AssertionError, match="tgt_mask reaches no attention; attention_mask was given"):
        assert_masks_reach(masked["sound"], "tgt_mask")
