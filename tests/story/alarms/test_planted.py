"""Bugs planted in masks are told by their kind and their line, and the same models without them raise nothing."""

import inspect
from pathlib import Path

import pytest
from story.alarms.planted import (
    flex,
    future,
    inverted,
    meaning,
    of_torch,
    pairs,
    reach,
    sequences,
    spread,
    turned,
    varlen,
)
from story.alarms.planted.pairs import PAIRS, trace_pair

from xray.story.alarms.whole import audit

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without")
ROOMS = (flex, reach, inverted, meaning, future, sequences, of_torch, spread, turned, varlen)
FILES = {Path(str(room.__file__)).name for room in (*ROOMS, pairs)}
FAST = PAIRS[::10]


def cases(*devices):
    return [
        pytest.param(
            one, device, id=f"{one.name}, {device}", marks=() if one in FAST and device == "cpu" else pytest.mark.slow
        )
        for one in PAIRS
        for device in devices
        if device == "cpu" or one.on_meta
    ]


def marked_line(one):
    """The line with the mark in the function that has the bug; None where the bug is no single line."""
    lines, first = inspect.getsourcelines(one.place)
    return next((first + number for number, line in enumerate(lines) if "# bug" in line), None)


@pytest.mark.parametrize(("one", "device"), cases("cpu", "meta"))
def test_a_planted_bug_is_told_by_its_kind_and_its_line(one, device):
    (alarm,) = audit(trace_pair(one, one.bad, device)).alarms

    assert alarm.kind == one.kind
    file, _, line = alarm.location.rpartition(":")
    assert Path(file).name in FILES
    assert marked_line(one) in (None, int(line))


@pytest.mark.parametrize(("one", "device"), cases("cpu", "meta"))
def test_the_same_model_without_the_bug_raises_nothing(one, device):
    assert audit(trace_pair(one, one.good, device)).alarms == ()


def test_a_mask_along_queries_is_told_as_what_it_would_do_be_nothing_hidden_by_it():
    (pair,) = (one for one in PAIRS if one.name == "keys' mask on queries")

    (alarm,) = audit(trace_pair(pair, pair.bad, "cpu")).alarms

    assert alarm.text.endswith(": hiding place 3 in it would hide row 3, and change nothing for other queries.")


def test_there_are_enough_of_them_and_of_every_kind():
    assert len(PAIRS) >= 75
    assert {one.kind for one in PAIRS} == {
        "unreached",
        "some layers",
        "overridden",
        "misaligned",
        "inverted",
        "future",
        "mixed",
        "weak",
        "axis",
        "packed",
        "ends",
        "window",
        "spread",
        "blind",
    }
