"""Steps that a picture outlines, numbered, and why: what changed between two traces, or where a forward failed.

How to use it:

    marks = mark_changes(diff(before, after), after)     # what changed, to be drawn on the picture of `after`
    marks = mark_failures(trace)                         # where the trace broke off; None where it did not
    draw_poster(after, "svg", marks=marks)
"""

from dataclasses import dataclass
from typing import Literal

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, PassKind, Step, Trace
from xray.story.alarms.whole import find_alarms
from xray.story.compare.difference import Change, Difference
from xray.story.failure.operands import Operand, read_operand
from xray.story.failure.rules import find_misfit
from xray.text import show_controls

MOST_NAMED = 4
"""How many missing steps are named; the others are counted."""


@dataclass(frozen=True)
class Mark:
    """One step to be outlined: where it is, what is the matter, and the tensors that show it side by side.

    `location` is the line of code that it was called from, where it helps to know it.
    """

    kind: PassKind
    number: int
    step: str
    text: str
    operands: tuple[Operand, ...] = ()
    location: str | None = None


@dataclass(frozen=True)
class Marks:
    """The steps to be outlined, the first one first; `notes` tell what has no place on the picture."""

    role: Literal["change", "failure", "alarm"]
    heading: str
    steps: tuple[Mark, ...]
    notes: tuple[str, ...] = ()

    @property
    def paint(self) -> Literal["change", "failure"]:
        """What they are outlined in: an alarm as what failed."""
        return "change" if self.role == "change" else "failure"


def mark_changes(difference: Difference, after: Trace) -> Marks:
    """What changed, one mark for each step of `after`; the same change in many turns of decoding is one.

    A block is left out where something inside it changed: that says it more closely.
    """
    passes = {(one.kind, one.number): one for one in after.passes}
    blocks = changed_around(difference, passes)
    marks: dict[tuple[PassKind, str], Mark] = {}
    turns: dict[tuple[PassKind, str], set[int]] = {}
    for change in difference.changes:
        one_pass = passes.get((change.kind, change.number))
        if change.step is None or one_pass is None or change.step not in one_pass.by_id:
            continue
        if (*key_of(change), change.step) in blocks:
            continue
        place = (change.kind, change.step)
        turns.setdefault(place, set()).add(change.number)
        marks.setdefault(place, make_mark(change, change.step))
    told = tuple(
        mark if len(turns[place]) == 1 else count_turns(mark, len(turns[place])) for place, mark in marks.items()
    )
    heading = f"{len(told):,} {'STEP' if len(told) == 1 else 'STEPS'} CHANGED" if told else "CHANGED"
    return Marks("change", heading if difference else "NO DIFFERENCE", told, tuple(list_absent(difference)))


def key_of(change: Change) -> tuple[PassKind, int]:
    return change.kind, change.number


def changed_around(
    difference: Difference, passes: dict[tuple[PassKind, int], Pass]
) -> set[tuple[PassKind, int, str | None]]:
    """The blocks around everything that changed."""
    found: set[tuple[PassKind, int, str | None]] = set()
    for change in difference.changes:
        one_pass = passes.get(key_of(change))
        step = one_pass.by_id.get(change.step) if one_pass is not None and change.step is not None else None
        while one_pass is not None and step is not None and step.parent is not None:
            found.add((*key_of(change), step.parent))
            step = one_pass.by_id.get(step.parent)
    return found


def make_mark(change: Change, step: str) -> Mark:
    """A change as a mark, the axes that changed marked in both shapes."""
    where = change.kind, change.number, step
    if change.before is None or change.after is None:
        if change.words is not None and change.aspect != "tensors":
            what = {"renamed": "name", "operation": "operation"}.get(change.aspect, change.aspect)
            return Mark(*where, f"{what}: {show_controls(change.words[0])}, now {show_controls(change.words[1])}")
        words = {"step added": "is new", "order": "runs at another place", "tensors": "has other inputs or outputs"}
        return Mark(*where, words.get(change.aspect, change.aspect))
    if change.aspect == "mask":
        return Mark(*where, f"mask: {describe_mask(change.before)}, now {describe_mask(change.after)}")
    if change.aspect == "part":
        parts = ("×".join(map(str, one.local or one.shape)) for one in (change.before, change.after))
        return Mark(*where, f"on this rank: {', now '.join(parts)}")
    before, after = read_operand(change.before), read_operand(change.after)
    if change.aspect == "axes":
        return Mark(*where, f"axes: {' × '.join(before.axes)}, now {' × '.join(after.axes)}")
    wrong = tuple(
        place for place, pair in enumerate(zip(before.sizes, after.sizes, strict=False)) if pair[0] != pair[1]
    )
    was = Operand(f"{after.name} was", before.sizes, before.axes, tuple(at for at in wrong if at < len(before.sizes)))
    return Mark(*where, "", (was, Operand("is", after.sizes, after.axes, wrong)))


def describe_mask(record: TensorRecord) -> str:
    return "none" if record.mask is None else f"{record.mask.kind}, {record.mask.hidden_share:.1%} hidden"


def count_turns(mark: Mark, turns: int) -> Mark:
    return Mark(mark.kind, mark.number, mark.step, f"{mark.text}, in {turns} turns".lstrip(", "), mark.operands)


def list_absent(difference: Difference) -> list[str]:
    """What is not in `after` any more, and passes that are on one side only."""
    gone = list(dict.fromkeys(one.step for one in difference.changes if one.aspect == "step missing" and one.step))
    notes = []
    if gone:
        named = ", ".join(show_controls(step) for step in gone[:MOST_NAMED])
        more = f" and {len(gone) - MOST_NAMED:,} more" if len(gone) > MOST_NAMED else ""
        notes.append(f"No longer there: {named}{more}")
    for aspect, words in (("pass missing", "Passes no longer there"), ("pass added", "Passes that are new")):
        passes = [one for one in difference.changes if one.aspect == aspect]
        if passes:
            named = ", ".join(f"{one.kind} {one.number or ''}".strip() for one in passes[:MOST_NAMED])
            more = f" and {len(passes) - MOST_NAMED:,} more" if len(passes) > MOST_NAMED else ""
            notes.append(f"{words}: {named}{more}")
    return notes


def mark_failures(trace: Trace) -> Marks | None:
    """Where a trace broke off: the innermost steps that raised, with their operands; None where nothing did."""
    marks = tuple(mark_failure(one_pass, step) for one_pass in trace.passes for step in find_failed(one_pass))
    heading = "THE FORWARD FAILED HERE" if len(marks) == 1 else f"{len(marks):,} STEPS FAILED"
    raised = dict.fromkeys(describe_error(step) for one_pass in trace.passes for step in find_failed(one_pass))
    return Marks("failure", heading, marks, tuple(raised)) if marks else None


def mark_alarms(trace: Trace) -> Marks | None:
    """Where masks go astray, or NaN begins: the steps of the alarms; None without any."""
    alarms = find_alarms(trace)
    marks = tuple(Mark(one.pass_kind, one.number, one.step, one.text, location=one.location) for one in alarms)
    return Marks("alarm", "1 ALARM" if len(marks) == 1 else f"{len(marks):,} ALARMS", marks) if marks else None


def find_failed(one_pass: Pass) -> tuple[Step, ...]:
    """The steps that raised and hold no step that did."""
    around = {step.parent for step in one_pass.steps if step.error is not None}
    return tuple(step for step in one_pass.steps if step.error is not None and step.id not in around)


def mark_failure(one_pass: Pass, step: Step) -> Mark:
    misfit = find_misfit(step)
    return Mark(one_pass.kind, one_pass.number, step.id, misfit.rule, misfit.operands, step.location)


def describe_error(step: Step) -> str:
    """What was raised, on one line."""
    return show_controls(" ".join((step.error or "").split()))
