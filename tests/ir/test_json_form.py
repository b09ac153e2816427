"""A trace goes out as JSON and comes back unchanged; what is no trace is refused with a reason."""

import json
import subprocess
import sys

import pytest

import xray
from xray.errors import TraceError
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.ir.records import MaskFacts, Preview, TensorRecord
from xray.ir.trace import SCHEMA, Pass, Step, Trace


def make_trace(**changes):
    mask = TensorRecord(
        name="mask",
        shape=(2, 1, 1, 3),
        axes=("batch", "1", "1", "src_len"),
        dtype="bool",
        device="cpu",
        role="mask",
        mask=MaskFacts("padding", 0.5, cells=(("..p",), (".pp",))),
    )
    ids = TensorRecord(
        name="src",
        shape=(2, 3),
        axes=("batch", "src_len"),
        dtype="int64",
        device="cpu",
        role="ids",
        preview=Preview((0, 0), (2, 2), (5, 6, 7, 1.5)),
    )
    block = Step("m#0", "m", 0, "block", "M", None, 0, None, 0, None, (ids,), (mask,))
    step = Step("m.a#0", "m.a", 0, "add", "Add", "m#0", 1, None, 0, "m.py:3", (ids,), (mask,), {"p": 0.5, "on": True})
    values = {
        "title": "T",
        "sizes": {"batch": 2},
        "config": {"run": None, "trained": True},
        "passes": (Pass("training", 0, {"src": (("a", "b", "<pad>"),)}, (block, step)),),
    }
    return Trace(**(values | changes))


def altered(change):
    table = json.loads(trace_to_json(make_trace()))
    change(table)
    return json.dumps(table)


def test_a_trace_comes_back_unchanged():
    trace = make_trace()

    assert trace_from_json(trace_to_json(trace)) == trace


def test_looking_at_a_trace_does_not_change_what_is_written():
    trace = make_trace()
    before = trace_to_json(trace)

    assert trace.passes[0].leaves
    assert trace.passes[0].by_id
    assert trace.passes[0].sizes == {"batch": 2, "src_len": 3}
    assert trace_to_json(trace) == before


def test_hostile_words_come_back_unchanged():
    words = (('"];</script>', "\x1b[31m", "עברית", "👾", "\u202e"),)
    trace = make_trace(passes=(Pass("forward", 0, {"src": words}, ()),))

    assert trace_from_json(trace_to_json(trace)).passes[0].tokens["src"] == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is not a trace: Input data was truncated"),
        ("hello", "this is not a trace: JSON is malformed"),
        ("[1]", r"this is not a trace: Expected `object`, got `array`"),
        ("{}", "this is not a trace: Object missing required field `schema`"),
        (b"\xff\xfe", "this is not a trace: "),
        (altered(lambda t: t.update(schema=SCHEMA + 1)), rf"this trace has schema {SCHEMA + 1}, .*Update"),
        (altered(lambda t: t["passes"][0].update(kind="dreaming")), r"Invalid enum value 'dreaming' - at `\$\.passes"),
        (altered(lambda t: t["passes"][0]["steps"][1].update(id="m#0")), "step m#0 stands twice"),
        (altered(lambda t: t["passes"][0]["steps"].reverse()), r"step m\.a#0 names the block m#0"),
        (altered(lambda t: t["passes"][0]["steps"][0]["inputs"][0].update(axes=["batch"])), "but 1 axis words"),
        (altered(lambda t: t["passes"][0]["steps"][0]["inputs"][0].update(shape=[2, -3])), "never below 0"),
        (altered(lambda t: t["passes"][0]["steps"][0]["inputs"][0].update(output=-1)), "counts from 0"),
        (
            altered(lambda t: t["passes"][0]["steps"][0]["inputs"][0]["preview"].update(values=[1])),
            r"a preview of shape \[2, 2\] with 1 values",
        ),
        (
            altered(lambda t: t["passes"][0]["steps"][0]["outputs"][0]["mask"].update(cells=[["..p"]])),
            "mask cells of another shape",
        ),
    ],
)
def test_what_is_no_trace_is_refused(text, message):
    with pytest.raises(TraceError, match=message):
        trace_from_json(text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"cannot read .*absent\.json: no such file or directory\. Make a trace with"):
        xray.read_trace(str(tmp_path / "absent.json"))


def test_a_trace_file_is_read_without_torch(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(make_trace()))
    code = (
        "import sys, xray; xray.read_trace(sys.argv[1]); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'datasets')))"
    )

    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0
