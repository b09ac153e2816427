"""Rows between layers that are repeated, each as often as it is to last, and what works out how often that is."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CLAMPS, DIFFERENCES, PLACING, ZEROS
from xray.story.recognition.between import does_mix, find_region
from xray.story.recognition.value_shapes import number

EACH_REPEATED = "repeat_interleave"
ROUNDING = frozenset({"round", "round_"})
ROWS_AND_COUNTS = 2


@dataclass(frozen=True)
class RowCounts:
    """The steps that work out how often rows are repeated of what a layer gave, from 0; `source` is where it ends."""

    layer: int
    source: int
    nodes: frozenset[int]


def repeats_rows(flow: Flow, before: int, start: int, leaves: Collection[int]) -> bool:
    """Whether each row is repeated as often as it is to last, and not all alike (FastSpeech 2)."""
    rows, left = flow.output(before).shape, flow.output(start).shape
    is_longer = len(rows) == len(left) and rows[:1] + rows[2:] == left[:1] + left[2:] and left[1] % rows[1] > 0
    return is_longer and any(flow.op(node) == EACH_REPEATED for node in leaves)


def find_counts(flow: Flow, ends: Sequence[int], leaves: Collection[int]) -> RowCounts | None:
    """What works out how often some steps repeat rows, of what the last of layers gave that leads there, by its `ends`.

    None where no weights take part.
    """
    repeats = [node for node in sorted(leaves) if flow.op(node) == EACH_REPEATED]
    counts = [flow.makers[node][1] for node in repeats if len(flow.makers[node]) == ROWS_AND_COUNTS]
    if not counts or counts[0] is None or len({flow.carried_from(one) for one in counts}) > 1:
        return None
    for layer, end in reversed(list(enumerate(ends))):
        region = find_region(flow, end, counts[0]) if counts[0] > end else None
        if region is not None:
            learned = [node for node in region.inner if flow.is_leaf(node) and flow.steps[node].params]
            return RowCounts(layer, end, region.inner) if does_mix(flow, learned) else None
    return None


def name_repeated(flow: Flow, node: int) -> str:
    """What a step is called that repeats rows, each by itself: how many, and how often, where that is one number."""
    given = flow.steps[node].inputs
    sizes = [pair for pair in zip(given[0].shape, flow.output(node).shape, strict=False) if len({*pair}) > 1]
    rows, made = sizes[0] if len(sizes) == len(given) == 1 else (0, 0)  # a second tensor says how often each is
    return f"EACH OF {rows:,} ROWS {made // rows:,} TIMES" if rows > 1 and made % rows == 0 else "EACH ROW REPEATED"


def fold_repeats(flow: Flow, nodes: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The step that puts in the last of sequences whose rows are repeated one sequence after the other, with all such.

    Empty where they are not repeated so.
    """
    repeats = [node for node in sorted(nodes) if flow.op(node) == EACH_REPEATED]
    puts = [node for node in sorted(nodes) if flow.op(node) in PLACING]
    put = [flow.carried_from(flow.makers[node][-1]) for node in puts]
    held = [flow.carried_from(flow.makers[node][0]) for node in puts]
    is_one = bool(puts) and put == repeats and held[1:] == puts[:-1] and flow.op(held[0] or 0) in ZEROS
    return {puts[-1]: (*reversed(puts), *reversed(repeats))} if is_one else {}


def label_counts(flow: Flow, counts: RowCounts | None) -> dict[int, str]:
    """What steps are called that make whole numbers, none too low, of what says how often rows are repeated."""
    found: dict[int, str] = {}
    for node in () if counts is None else counts.nodes:
        op, value, least = flow.op(node), number(flow.steps[node]), flow.steps[node].settings.get("min")
        if op in DIFFERENCES and value is not None and len(flow.steps[node].inputs) == 1:
            found[node] = f"− {value:g}"
        elif op in ROUNDING:
            found[node] = "ROUNDED"
        elif op in CLAMPS and isinstance(least, int | float) and "max" not in flow.steps[node].settings:
            found[node] = f"AT LEAST {least:g}"
    return found
