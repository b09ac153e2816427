"""What a run costs, as far as its record proves it: weights, the fullest moment, what is kept, arithmetic."""

from collections.abc import Iterator

from xray.ir.flow.operation_kinds import SCALINGS
from xray.ir.flow.remembering import once
from xray.ir.peak import Peak, find_peak
from xray.ir.products import NATIVE
from xray.ir.trace import Step, Trace
from xray.story.facts.kept_keys import list_prices, look_at_pass, measure_growth
from xray.story.facts.totals import count_work
from xray.text import round_down, say_at_least, say_short


def list_costs(
    trace: Trace,
    active_params: int | None = None,
    active: str = "used",
    *,
    has_windows: bool = False,
    has_whole_table: bool = False,
) -> Iterator[tuple[str, str]]:
    """What is told of and how much it is: counts of the whole trace, each exact or said to be the least.

    `active` is what the parameters are called that are used. Behind windows that are full nothing more may be kept. The
    table of words that they count may be a whole one, though a place looks up one row of it.
    """
    work = count_work(trace)
    if work.params:
        size = f", {say_short(work.param_bytes, 'B')}" if work.param_bytes else ""
        yield "weights", f"{say_short(work.params)} numbers{size}"
    if active_params and active_params != work.params:
        share = f"{active_params / work.params:.1%}"
        is_nearly_all = share == "100.0%"
        idle = f"all but {work.params - active_params:,}"
        whole = ", word table whole" if has_whole_table else ""
        yield f"of these {active}", idle if is_nearly_all else f"{say_short(active_params)} ({share}){whole}"
    if not work.with_backward:
        yield from list_fullest(trace, work.param_bytes)
    growth, until = measure_growth(trace), ", with windows not yet full" if has_windows else ""
    if growth is not None and growth.is_kept and growth.per_word:
        yield "keys, values for each place", f"{say_short(growth.per_word, 'B')}{until}"
    for length, per_word in () if has_windows else list_prices(trace):  # a full window is as a shorter row
        yield f"keys, values for each place of {length:,}", say_short(per_word, "B")
    if work.flops and not any(step.op in NATIVE for step in trace.steps):  # which are counted by their own words
        say = say_at_least if work.not_counted or work.with_backward else say_short
        yield "FLOPs", say(work.flops)


def list_fullest(trace: Trace, param_bytes: int) -> Iterator[tuple[str, str]]:
    """The fullest moment of all passes: what no run can do without there, the weights with it.

    A program that holds on to more may be fuller at another step, so that only so much is told to be at this one.
    """
    fullest = find_fullest(trace)
    if fullest is not None and param_bytes:
        whole = param_bytes + fullest.bytes
        is_mostly_weights = round_down(whole) < param_bytes  # which a number rounded down would seem to leave out
        beside = f"weights, and {say_at_least(fullest.bytes, 'B')}"
        yield "memory at the fullest", beside if is_mostly_weights else say_at_least(whole, "B")
        made = fullest.step.outputs[:1]
        shape = f", {'×'.join(f'{size:,}' for size in made[0].shape)}" if made else ""
        yield "that much at", f"{fullest.step.op}{' by 1' * is_by_one(fullest.step)}{shape}"


def is_by_one(step: Step) -> bool:
    """Whether a step multiplies or divides by 1, which no box tells of (Granite's last, as it is set by default)."""
    return step.op in SCALINGS and type(step.settings.get("other")) in (int, float) and step.settings["other"] == 1


@once
def find_fullest(trace: Trace) -> Peak | None:
    """The fullest moment of all passes; None where nothing was stored."""
    peaks = [peak for one in trace.passes if (peak := find_peak(one, look_at_pass(one).grown)) is not None]
    return max(peaks, key=lambda peak: peak.bytes, default=None)
