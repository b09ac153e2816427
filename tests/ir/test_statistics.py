"""Statistics travel with a preview, and a file whose statistics cannot be is refused."""

from dataclasses import replace

import pytest
from small_traces import record, step

from xray.errors import TraceError
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.ir.records import Preview, Statistics
from xray.ir.trace import Pass, Trace


def make_trace(statistics):
    preview = Preview((0, 0), (1, 3), (0.5, 1.5, 2.5), statistics)
    one = step("net", "linear", [], [record("out", "batch heads", preview=preview)])
    return Trace("net", {}, {}, (Pass("forward", 0, {}, (one,)),))


@pytest.mark.parametrize(
    "statistics",
    [None, Statistics(-1.0, 2.5, 0.25, 0, 0), Statistics(None, None, None, 5, 1), Statistics(1, 1, 1, 0, 2)],
)
def test_statistics_come_back_unchanged(statistics):
    trace = make_trace(statistics)

    assert trace_from_json(trace_to_json(trace)) == trace


@pytest.mark.parametrize(
    "changes",
    [{"minimum": 3.0}, {"minimum": None}, {"mean": None}, {"nans": -1}, {"nans": 4, "infinities": 3}],
    ids=["minimum above maximum", "half of them", "no mean", "a count below nothing", "more than there are"],
)
def test_statistics_that_cannot_be_are_refused(changes):
    trace = make_trace(replace(Statistics(-1.0, 2.5, 0.25, 0, 0), **changes))

    with pytest.raises(TraceError, match="statistics that cannot be of it"):
        trace_from_json(trace_to_json(trace))
