"""Bugs planted in models of a library are told by their kind, and the same models without them raise nothing."""

import pytest
from story.alarms.planted.libraries import PAIRS

from xray.story.alarms.whole import audit

pytest.importorskip("transformers", reason="transformers, whose models these are, is not installed")

CASES = [pytest.param(one, id=one.name, marks=() if one is PAIRS[4] else pytest.mark.slow) for one in PAIRS]


@pytest.mark.parametrize("one", CASES)
def test_a_bug_in_a_library_s_model_is_told_by_its_kind(one):
    assert [alarm.kind for alarm in audit(one.record(True)).alarms] == [one.kind]


@pytest.mark.parametrize("one", CASES)
def test_the_library_s_model_alone_raises_nothing(one):
    assert audit(one.record(False)).alarms == ()
