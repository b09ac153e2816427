"""Moves that put rows into other sequences: which part of each axis goes where, followed through views and turns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, COPIES, FINDINGS, TURNS
from xray.ir.turns import read_turn

LAYING = frozenset({"view", "reshape", "unsafe_view", "view_as", "reshape_as", "flatten", "unflatten", "squeeze"})
MOVES = LAYING | COPIES | CASTING | TURNS | {"unsqueeze"}
"""They keep all numbers, in the same order but for turns."""

MAP = len(("batch", "channels", "line", "column"))


@dataclass(eq=False)
class Piece:
    """A part of an axis by how many places it has; what it was cut into where a view parts it."""

    size: int
    parts: list["Piece"] = field(default_factory=list)

    def spread(self) -> list["Piece"]:
        """All that it was cut into in the end, itself where it was not cut."""
        return list(chain.from_iterable(part.spread() for part in self.parts)) if self.parts else [self]


Axes = list[list[Piece]]
Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Regrouping:
    """How the axes of rows are made up before and behind moves, without their channels, and the moves, the last first.

    Each axis is told by the sizes of its parts: (2, 16), (256,) are 32 sequences of 256 rows, 16 of each of two films.
    """

    before: Counts
    after: Counts
    moves: tuple[int, ...]


@dataclass(frozen=True)
class Stacked:
    """Into how many pieces each map is cut, whether one lies below the other or beside it, and the moves, last first.

    `is_turned` where lines become columns besides.
    """

    pieces: int
    is_below: bool
    is_turned: bool
    moves: tuple[int, ...]


@dataclass(frozen=True)
class Patches:
    """How large the patches are into which each map is cut, and the moves, the last first."""

    sizes: tuple[int, ...]
    moves: tuple[int, ...]


def find_stacked(flow: Flow, node: int) -> Stacked | None:
    """How moves that end at a step cut each map into pieces along one axis and lay these along the other."""
    moves = list_moves(flow, node, may_begin=True)
    before, after = follow(flow, moves)
    if not len(before) == len(after) == MAP:
        return None
    for cut, other in ((2, 3), (3, 2)):
        if len(before[cut]) == 2 and before[:2] == after[:2]:
            outer, inner = before[cut]
            for along, rest in ((2, 3), (3, 2)):
                if (after[along], after[rest]) == ([outer, *before[other]], [inner]):
                    return Stacked(outer.size, along == 2, along == cut, moves)
    return None


def find_patches(flow: Flow, node: int) -> Patches | None:
    """How moves that end at a step cut each map into patches, and lay all numbers of each patch out in one row.

    The rows stay in the order of their maps, lines and columns; films may be cut along their time too (ViViT).
    """
    moves = list_moves(flow, node, may_begin=True)
    before, after = follow(flow, moves)
    if len(before) < MAP or len(after) < len(("batch", "row", "width")) or before[0] != after[0]:
        return None
    cut = [axis for axis in before[1:] if len(axis) == len(("patches", "inner"))]
    inner, last = [piece for _, piece in cut], after[-1]
    channels = [piece for axis in before[1:] if axis not in cut for piece in axis if piece in last]
    rows = [axis[0] for axis in before[1:] if axis and axis[0] not in channels]
    is_cut = len(cut) >= len(("height", "width")) and len(channels) <= 1 and {*last} == {*inner, *channels}
    if not is_cut or [piece for axis in after[1:-1] for piece in axis] != rows:
        return None
    return Patches(tuple(piece.size for piece in inner), moves)


def are_spread(flow: Flow, moves: Sequence[int]) -> bool:
    """Whether moves, the last first, cut axes in two and lay the outer parts out as the rows of sequences.

    So neighbours in a row stood as far from each other as there are sequences along their axis (MaxViT's grids).
    """
    for count in range(1, len(moves) + 1):
        before, after = follow(flow, moves[:count])
        cut = [axis for axis in before[1:] if len(axis) == len(("outer", "inner"))]
        whole = {piece for axis in before[1:] if axis not in cut for piece in axis}
        maps = {piece for axis in after[1:] for piece in axis} - whole  # of which sequences may be, channels first
        if cut and len(after) > len(("row", "width")) and {outer for outer, _ in cut} in ({*after[-2]}, maps):
            return True
    return False


def run_along_axes(flow: Flow, moves: Sequence[int]) -> bool:
    """Whether moves, the last first, lay rows of whole axes out, while others become sequences: no axis is cut.

    So all series stand in a row at one time, or all times of one series (Toto).
    """
    before, after = follow(flow, moves)
    if len(after) < len(("row", "width")):
        return False
    rows = {*after[-2]}
    others = [axis for axis in before[1:] if axis and rows.isdisjoint(axis) and after[-1] != axis]
    is_whole = rows.isdisjoint(before[0]) and all(rows.isdisjoint(axis) or rows.issuperset(axis) for axis in before)
    return bool(rows and others) and is_whole


def mix_sequences(flow: Flow, moves: Sequence[int]) -> bool:
    """Whether moves, the last first, put rows of several sequences of a batch into one, as one view of all rows may.

    Parts of one, as the frames of a film are, may become sequences.
    """
    for count in range(1, len(moves) + 1):
        is_batch = flow.steps[moves[count - 1]].inputs[0].axes[:1] in (("batch",), ("",))
        before, after = follow(flow, moves[:count]) if is_batch else ([], [])
        if after and any(before[0][:1] == [piece] for axis in after[1:] if len(axis) > 1 for piece in axis):
            return True
    return False


def find_map(flow: Flow, node: int) -> tuple[int, int] | None:
    """Of how many lines and columns the map is that moves which end at a step make of rows, channels first.

    What a convolution gives is no rows: its channels may be laid out as joints and their coordinates.
    """
    moves = list_moves(flow, node)
    if moves and any(maker is not None and flow.op(maker) in FINDINGS for maker in flow.makers[moves[-1]]):
        return None
    before, after = follow(flow, moves)
    if len(before) != len(("batch", "row", "width")) or len(after) != MAP or [len(one) for one in after[2:]] != [1, 1]:
        return None
    is_laid = after == [before[0], before[2], *([part] for part in before[1])]
    return (after[2][0].size, after[3][0].size) if is_laid else None


def follow(flow: Flow, moves: Sequence[int]) -> tuple[Axes, Axes]:
    """The parts of each axis before and behind some moves, the last of these first; none where that is not known."""
    begun: Axes = [[Piece(size)] for size in flow.steps[moves[-1]].inputs[0].shape] if moves else []
    axes: Axes | None = [list(axis) for axis in begun]
    for move in reversed(moves):
        axes = None if axes is None else move_axes(flow, move, axes)
    return ([], []) if axes is None else ([spread(axis) for axis in begun], [spread(axis) for axis in axes])


def find_regrouping(flow: Flow, node: int, channels: int) -> Regrouping | None:
    """How moves that end at a step, at sequences of rows, put rows into others than they were in; None if they do not.

    `channels` is the axis of the numbers of each row where the moves begin.
    """
    moves = list_moves(flow, node)
    if not moves or len(flow.output(node).shape) != len(("batch", "row", "width")):
        return None
    before, after = follow(flow, moves)
    if not after or after.pop() != before.pop(channels):
        return None
    if are_shuffled(before, after):
        return Regrouping(*spell(before, after), moves)
    before = [axis for axis in before if axis]
    if len(before) < len(after) or not all(after) or before[0] == after[0]:
        return None
    if all(axis in before for axis in after):  # the same sequences, be it that their places come first (Fairseq)
        return None
    counted = spell(before, after)
    return Regrouping(*counted, moves)


def are_shuffled(before: Axes, after: Axes) -> bool:
    """Whether the rows of each sequence come in another order, as parts of their axis changed places (TransReID)."""
    if len(before) != len(after) or before[0] != after[0]:
        return False
    return before[1] != after[1] and set(before[1]) == set(after[1])


def list_moves(flow: Flow, node: int, *, may_begin: bool = False) -> tuple[int, ...]:
    """The moves in a row that end at a step, itself first; none where another move of its numbers follows.

    Nor where no step made what they move, unless they `may_begin` with what came in.
    """
    if any(flow.op(one) in MOVES for one in flow.leaf_readers(node)):
        return ()
    moves: list[int] = []
    here: int | None = node
    while here is not None and flow.op(here) in MOVES and flow.is_leaf(here) and flow.steps[here].inputs:
        moves.append(here)
        here = flow.makers[here][0]
    return tuple(moves) if may_begin or here is not None else ()


def spread(axis: Sequence[Piece]) -> list[Piece]:
    """The parts of an axis in the end, without those of one place."""
    return [part for piece in axis for part in piece.spread() if part.size > 1]


def move_axes(flow: Flow, move: int, axes: Axes) -> Axes | None:
    """The axes behind one move: turned, or laid out anew in the same order; None where it is not known what it does."""
    step = flow.steps[move]
    if flow.op(move) in TURNS:
        turned = read_turn(step)
        return None if turned is None or len(turned) != len(axes) else [axes[axis] for axis in turned]
    return lay_out(axes, step.outputs[0].shape)


def lay_out(axes: Axes, shape: Sequence[int]) -> Axes | None:
    """The parts of all axes in their order in axes of a shape, cut where that needs it; None where they do not fit."""
    left = [part for axis in axes for piece in axis for part in piece.spread()]
    if prod(part.size for part in left) != prod(shape) or not prod(shape):
        return None
    found: Axes = []
    for size in shape:
        axis: list[Piece] = []
        while size > 1:
            part = left.pop(0)
            if part.size > size and part.size % size == 0:
                part.parts = [Piece(size), Piece(part.size // size)]
                part, rest = part.parts
                left.insert(0, rest)
            if size % part.size:
                return None
            axis.append(part)
            size //= part.size
        found.append(axis)
    return found


def spell(before: Axes, after: Axes) -> tuple[Counts, Counts]:
    """The sizes of the parts of axes on both sides, one of those that stay next to each other in an axis."""
    runs = join_parts(before, after)

    def count(axes: Axes) -> Counts:
        sizes = (tuple(prod(one.size for one in runs[part]) for part in axis if runs[part][0] is part) for axis in axes)
        return tuple(axis for axis in sizes if axis)

    return count(before), count(after)


def join_parts(before: Axes, after: Axes) -> dict[Piece, list[Piece]]:
    """Each part with all those that it is one with: they follow one another in an axis before and in one behind.

    Rows and columns of a map that become rows of a sequence are one before, too.
    """
    follows = {pair for axis in after for pair in pairwise(axis)}
    rows = {pair for pair in follows if pair[0] in after[-1]}
    runs: dict[Piece, list[Piece]] = {}
    last: Piece | None = None
    for number, axis in enumerate(before):
        last = last if number > 1 else None
        for place, part in enumerate(axis):
            joins = last is not None and (last, part) in (follows if place else rows)
            runs[part] = [*runs[last], part] if joins and last is not None else [part]
            for one in runs[part]:
                runs[one] = runs[part]
            last = part
    return runs


def count_laid_apart(flow: Flow, nodes: range, batch: int | None) -> int | None:
    """How many inputs so many sequences are of, where some steps lay them apart, as pictures by films (Latte)."""
    laid = (node for node in nodes if flow.op(node) in LAYING and flow.steps[node].inputs[0].shape[:1] == (batch,))
    made = (flow.output(node).shape for node in laid)
    return min((shape[0] for shape in made if len(shape) > MAP - 1 and prod(shape[:2]) == batch), default=batch)
