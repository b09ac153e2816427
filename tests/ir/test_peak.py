"""The fullest moment of a pass: what is made, and not yet read for the last time."""

from dataclasses import replace

from xray.ir.peak import find_peak
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step


def tensor(shape, source, dtype="float32"):
    return TensorRecord(
        name="out",
        shape=shape,
        axes=("",) * len(shape),
        dtype=dtype,
        device="cpu",
        role="activation",
        source=source,
    )


def step(name, shape, *read, op="linear"):
    return Step(
        id=name,
        path=name,
        call=0,
        op=op,
        module="",
        parent=None,
        depth=0,
        layer=None,
        params=0,
        location=None,
        inputs=tuple(read),
        outputs=(tensor(shape, name),),
    )


def test_what_is_read_for_the_last_time_is_let_go():
    wide = step("wide", (10,), tensor((2,), None))
    narrow = step("narrow", (3,), wide.outputs[0])
    last = step("last", (4,), narrow.outputs[0])
    peak = find_peak(Pass(kind="forward", number=0, tokens={}, steps=(wide, narrow, last)))

    assert (peak.bytes, peak.step.id) == (4 * 13, "narrow")


def test_a_view_keeps_what_it_shows():
    wide = step("wide", (10,), tensor((2,), None))
    view = step("view", (2, 5), wide.outputs[0], op="view")
    other = step("other", (6,), tensor((2,), None))
    last = step("last", (1,), view.outputs[0], other.outputs[0], op="add")
    peak = find_peak(Pass(kind="forward", number=0, tokens={}, steps=(wide, view, other, last)))

    assert (peak.bytes, peak.step.id) == (4 * 17, "last")


def test_what_a_step_makes_beside_and_nobody_reads_is_let_go():
    """The places of a maximum are there while it is found, and not when its values are worked on (Hiera)."""
    found = step("found", (4,), tensor((2,), None), op="max")
    found = replace(found, outputs=(*found.outputs, tensor((4,), "found", "int64")))
    wide = step("wide", (9,), found.outputs[0])
    last = step("last", (1,), wide.outputs[0])
    peak = find_peak(Pass(kind="forward", number=0, tokens={}, steps=(found, wide, last)))
    places_read = replace(last, inputs=(*last.inputs, found.outputs[1]))
    other = find_peak(Pass(kind="forward", number=0, tokens={}, steps=(found, wide, places_read)))

    assert (peak.bytes, peak.step.id) == (4 * 13, "wide")
    assert (other.bytes, other.step.id) == (4 * 13 + 8 * 4, "wide")


def test_what_is_kept_for_the_next_pass_stays():
    wide = step("wide", (10,), tensor((2,), None))
    narrow = step("narrow", (3,), wide.outputs[0])
    last = step("last", (4,), narrow.outputs[0])
    one_pass = Pass(kind="forward", number=0, tokens={}, steps=(wide, narrow, last))

    assert find_peak(one_pass, wide.outputs).bytes == 4 * 17
