"""Neighbours that are too many to be shown one by one, gathered: by the line of code that they come from, or evenly."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from xray.ir.flow.operation_kinds import CARRYING, FINDINGS
from xray.ir.trace import Step
from xray.story.blocks.items import Differ
from xray.story.blocks.pieces import FEWEST_NUMBERS, IDLE, Piece, join_pieces
from xray.story.blocks.tree import Tree
from xray.story.wording import spell_steps

FEWEST = 2
"""A bundle holds at least so many."""
MOST_WORDS = 4
MOST_INSIDE = 6
"""The steps of a closed block are named where they are so many at most."""


@dataclass(frozen=True)
class Slot:
    """Neighbours at these places that stand together, `count` times if the same follow; differing in size or alike.

    `piece` is what they are together, where a reader knows that by one word.
    """

    heads: tuple[int, ...]
    count: int = 1
    differ: Differ = ""
    is_bundle: bool = False
    piece: Piece | None = None


def gather_pieces(slots: Sequence[Slot], pieces: Sequence[Piece | None]) -> list[Slot]:
    """The slots with those as one that are one piece; `pieces` are those of all places, None where it stands open."""
    found: list[Slot] = []
    row: list[Slot] = []
    whole: Piece | None = None
    for slot in slots:
        is_one = len(slot.heads) == 1 and not slot.is_bundle
        piece = pieces[slot.heads[0]] if is_one else None
        whole = join_pieces((whole if row else IDLE, piece))
        if row and (whole is None or slot.count > 1):
            found += close_row(row, pieces)
            row, whole = [], piece
        if piece is None or slot.count > 1:
            found.append(slot if piece is IDLE else replace(slot, piece=piece) if piece else slot)
        else:
            row.append(slot)
    return [*found, *close_row(row, pieces)]


def close_row(row: Sequence[Slot], pieces: Sequence[Piece | None]) -> list[Slot]:
    """Neighbours that are one piece as one slot, if they are worth it; idle ones at its ends stand for themselves."""
    known = [pieces[slot.heads[0]] for slot in row]
    real = [number for number, piece in enumerate(known) if piece is not IDLE]
    piece = join_pieces(known)
    if len(real) < (FEWEST_NUMBERS if piece is not None and piece.kind == "numbers" else FEWEST):
        return [replace(slot, piece=one) if one is not IDLE else slot for slot, one in zip(row, known, strict=True)]
    first, last = real[0], real[-1] + 1
    whole = Slot(tuple(slot.heads[0] for slot in row[first:last]), is_bundle=True, piece=piece)
    return [*row[:first], whole, *row[last:]]


def bundle_slots(slots: Sequence[Slot], tree: Tree, most: int) -> list[Slot]:
    """The slots if there are no more than `most`, else half as many bundles or fewer, in order.

    Neighbours from one line of code stay together where that alone makes few enough; a fold of many stands alone.
    """
    if len(slots) <= most:
        return list(slots)
    fewest = sum(len(slot.heads) * slot.count for slot in slots) / most

    def is_folded(slot: Slot) -> bool:
        return slot.count > 1 and len(slot.heads) * slot.count >= fewest

    by_line = [list(run) for _, run in groupby(slots, key=lambda slot: (is_folded(slot), line_of(slot, tree)))]
    if 1 < len(by_line) <= most:
        return [one for run in by_line for one in (run if is_folded(run[0]) else gather(run, tree))]
    wanted = max(1, most // 2)
    size = -(-len(slots) // wanted)
    return [
        one
        for folded, run in groupby(slots, key=is_folded)
        for one in (list(run) if folded else gather_evenly(list(run), size, tree))
    ]


def line_of(slot: Slot, tree: Tree) -> str | None:
    return tree.steps[slot.heads[0]].location


def gather_evenly(slots: Sequence[Slot], size: int, tree: Tree) -> list[Slot]:
    return [one for start in range(0, len(slots), size) for one in gather(slots[start : start + size], tree)]


def gather(slots: Sequence[Slot], tree: Tree) -> list[Slot]:
    """The slots as one bundle; a single one stays what it is."""
    if len(slots) < FEWEST:
        return list(slots)
    heads = tuple(place for slot in slots for place in every_place(slot, tree))
    return [Slot(heads, is_bundle=True)]


def every_place(slot: Slot, tree: Tree) -> Iterable[int]:
    """The neighbours of a slot, of all times that it stands for."""
    length = tree.ends[slot.heads[-1]] - slot.heads[0]
    return (place + number * length for number in range(slot.count) for place in slot.heads)


def name_operations(steps: Iterable[Step]) -> str:
    """What a bundle does, its commonest operations first: "linear × 120, relu × 80 and 3 other kinds"."""
    counted = Counter(step.op for step in steps).most_common()
    named = [op if count == 1 else f"{op} × {count:,}" for op, count in counted[:MOST_WORDS]]
    rest = len(counted) - MOST_WORDS
    return ", ".join(named) + (f" and {rest} other kind{'s' if rest > 1 else ''}" if rest > 0 else "")


def name_inside(steps: Sequence[Step]) -> tuple[str, ...]:
    """What the steps inside a closed block do, in order: "conv2d 3×3 by channel", "batch_norm2d"; none of too many.

    Those that only move numbers, or put none around them, are left out (MobileNet).
    """
    named = tuple(name_kernel(step) for step in steps if step.op not in CARRYING and not pads_nothing(step))
    return named if len(named) <= MOST_INSIDE else ()


def pads_nothing(step: Step) -> bool:
    """Whether a step would put numbers around others, and is told to put none."""
    return step.op == "pad" and [one.shape for one in step.inputs] == [one.shape for one in step.outputs]


def name_kernel(step: Step) -> str:
    """An operation, with the kernel of a convolution, how it parts channels, and by how many places it moves on."""
    kernel, stride = (step.settings.get(name) for name in ("kernel_size", "stride"))
    if step.op not in FINDINGS or not isinstance(kernel, str):
        return step.op
    groups, channels = step.settings.get("groups", 1), step.settings.get("in_channels")
    parted = "" if groups == 1 else " by channel" if groups == channels else f" in {groups} groups"
    steps = [int(one) for one in stride.split("x")] if isinstance(stride, str) else [1]
    moved = "" if set(steps) == {1} else f" step {spell_steps(steps)}"
    return f"{step.op} {kernel.replace('x', '×')}{parted}{moved}"
