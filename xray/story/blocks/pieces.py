"""What a reader knows by one word, and what so stands as one box: a norm, a turn by place, the making of a mask.

Each is known by what its steps compute, wherever they stand: as a block of their own, or side by side in a larger one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xray.ir.flow.dataflow import Flow, read_flow
from xray.ir.flow.operation_kinds import CASTING, STATISTICS, SUMS
from xray.ir.flow.remembering import once
from xray.ir.trace import Pass
from xray.story.blocks.dataless import find_turns, list_uses
from xray.story.blocks.tree import Tree
from xray.story.recognition.norms import STRIPPED, Norm, find_norm, name_norm
from xray.story.recognition.values.value_shapes import number

PieceKind = Literal["norm", "rotation", "mask", "angles", "picks", "numbers"]
WORDS: dict[PieceKind, str] = {
    "rotation": "rotary positions",
    "mask": "making of the mask",
    "angles": "rotary angles",
    "picks": "which are picked",
    "numbers": "made of no data",
}
FEWEST_NUMBERS = 3
"""Constants are gathered only if they are so many."""
LARGEST_EPSILON = 1e-2


@dataclass(frozen=True)
class Piece:
    """What some steps are together: the kind, what it is called, and which one of its kind it is."""

    kind: PieceKind
    words: str
    which: int = 0


IDLE = Piece("numbers", "")
"""Stands for steps that change nothing or that nobody reads: they go with any piece beside them."""


@once
def list_pieces(one_pass: Pass) -> dict[str, Piece]:
    """The pieces of a pass, by the ids of their steps; blocks and single operations are none."""
    flow = read_flow(one_pass)
    found: dict[str, Piece] = {}
    for nodes, piece in find_pieces(flow):
        if len(nodes) > 1 and not any(flow.steps[node].error for node in nodes):
            for node in nodes:
                found.setdefault(flow.steps[node].id, piece)
    for place, use in list_uses(flow).items():
        found.setdefault(flow.steps[place].id, Piece(use, WORDS[use]))
    for place, step in enumerate(flow.steps):
        if (not step.inputs or step.op in CASTING) and flow.is_leaf(place) and is_idle(flow, place):
            found.setdefault(step.id, IDLE)
    return found


def find_pieces(flow: Flow) -> Iterator[tuple[Sequence[int], Piece]]:
    """Norms and turns, each with its steps."""
    ops = {step.op for step in flow.steps}
    ends = STRIPPED | CASTING if ops & STATISTICS else frozenset[str]()
    taken: set[int] = set()
    for place in range(len(flow.steps) - 1, -1, -1):
        if flow.op(place) in ends and place not in taken and flow.is_leaf(place):
            norm = find_norm(flow, place)
            if norm is not None and not taken.intersection(norm.nodes):
                taken.update(norm.nodes)
                yield norm.nodes, Piece("norm", describe_norm(flow, norm), norm.end)
    for turn in find_turns(flow):
        yield turn, Piece("rotation", WORDS["rotation"], turn[0])


def describe_norm(flow: Flow, norm: Norm) -> str:
    """Which norm it is, and the small number that it adds where that is told."""
    kind = name_norm(flow, norm)
    words = "divided by its length" if kind is None else f"{'RMS' if kind == 'rms' else kind} norm"
    added = (number(flow.steps[node], "other") for node in norm.nodes if flow.op(node) in SUMS)
    small = [one for one in added if one is not None and 0 < one < LARGEST_EPSILON]
    return f"{words}, eps {small[0]:g}" if len(small) == 1 else words


def is_idle(flow: Flow, place: int) -> bool:
    """Whether a step hands on what it is given, or makes what nobody reads without any data."""
    step = flow.steps[place]
    if step.error or not step.outputs or step.params:
        return False
    if step.op in CASTING and any(one.source == step.outputs[0].source for one in step.inputs):
        return True
    return place not in flow.readers and not step.inputs


def mark_places(tree: Tree, one_pass: Pass) -> tuple[Piece | None, ...]:
    """For each place of a tree the piece that it is part of, or is the whole of where it is a block."""
    known = list_pieces(one_pass)
    found = [known.get(step.id) for step in tree.steps]
    for place in reversed(range(len(tree.steps))):
        inside = tree.inside[place]
        if inside:
            piece = None if tree.steps[place].error else join_pieces([found[one] for one in inside])
            found[place] = None if piece is IDLE else piece
    return tuple(found)


def join_pieces(pieces: Sequence[Piece | None]) -> Piece | None:
    """What steps are together that are each part of a piece: the one that they share; None if they share none."""
    if None in pieces:
        return None
    kept = {piece for piece in pieces if piece is not None and piece is not IDLE}
    return IDLE if not kept else kept.pop() if len(kept) == 1 else None
