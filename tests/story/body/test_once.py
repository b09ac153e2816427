"""A recording is read once, however many views of it are drawn."""

from collections import Counter
from dataclasses import replace

import pytest
from recorded import recorded

import xray
from xray.story.body import reading


@pytest.fixture
def read(monkeypatch):
    """How often each pass was read."""
    found = Counter()
    read_flow = reading.read_flow

    def count(one_pass):
        found[one_pass.key] += 1
        return read_flow(one_pass)

    monkeypatch.setattr(reading, "read_flow", count)
    return found


def unread(name):
    """A trace of which nothing was read yet."""
    trace = recorded(name)
    return replace(trace, passes=tuple(replace(one_pass) for one_pass in trace.passes))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["svg", "table", "html"])
@pytest.mark.parametrize("name", ["GPT-2, inference", "one layer"])
def test_every_pass_is_read_once_for_a_view(read, name, form):
    trace = unread(name)

    xray.render(trace, form)

    assert set(read.values()) <= {1}
    assert set(read) <= {one_pass.key for one_pass in trace.passes}


def test_all_views_of_a_trace_share_one_reading(read):
    trace = unread("GPT-2, inference")

    xray.anatomy(trace)
    xray.render(trace, "svg")
    xray.render(trace, "table")

    assert read == {"forward": 1}
