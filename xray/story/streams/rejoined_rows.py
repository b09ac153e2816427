"""Rows that some sublayers alone work on, and that stand beside the others of their stream again behind these."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xray.ir.flow.cut_rows import are_apart
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SIDE_BY_SIDE, SUMS
from xray.story.recognition.between import Region, find_region
from xray.story.streams.asides import list_carried_readers
from xray.story.streams.joints import Joint

WHOLE = (CARRYING | DROPOUTS) - {"index"}
"""What moves rows and leaves none of them away."""
SPLITS = frozenset({"split", "split_with_sizes", "tensor_split"})
"""What cuts rows in parts of any length."""


@dataclass(frozen=True)
class RejoinedRows:
    """Rows of a stream end to end again: `join` puts those that `cut` took out of it, and that sublayers worked on,
    beside the `count` others, which `other` took, be it the same step that cut both; `way` are the steps that work on
    these, None where none does.

    They stand `in_front` where they come first.
    """

    join: int
    cut: int
    other: int
    count: int
    in_front: bool
    way: Region | None

    @property
    def nodes(self) -> frozenset[int]:
        """The steps of the other rows, and the one that puts them beside the first ones."""
        inner = frozenset[int]() if self.way is None else self.way.inner | self.way.beside
        return inner | ({self.other, self.join} - {self.cut})


def takes_rows_alone(flow: Flow, node: int | None) -> bool:
    """Whether a step takes some rows of each sequence out of a tensor, as many as are to go on alone."""
    if node is None or flow.op(node) != "index" or len(flow.makers[node]) != 1:
        return False
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    are_rows = len(before) == len(after) == len(("batch", "row", "width")) and before[::2] == after[::2]
    return are_rows and 0 < after[1] < before[1]


def count_taken(flow: Flow, node: int) -> int:
    """How many rows of each sequence a step takes out of a tensor, one of them without an axis for it; 0 for another.

    So the row of a class is taken by its place.
    """
    if takes_rows_alone(flow, node):
        return flow.output(node).shape[1]
    if flow.op(node) != "index" or len(flow.makers[node]) != 1:
        return 0
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    return int(len(before) == len(("batch", "row", "width")) and (before[0], before[2]) == after)


def find_taken(flow: Flow, joint: Joint) -> int | None:
    """The step that takes some rows of the stream for a sum, where its branch begins with the same ones (TimeSformer).

    The first of the two is given, or the one for both; None where branch or stream read others, or all.
    """
    if (cut := find_split(flow, joint)) is not None:
        return cut
    if takes_rows_alone(flow, joint.stream):
        return joint.stream
    end = flow.carried_from(joint.region.end, WHOLE)
    own = [one for maker in flow.makers[joint.add] if (one := flow.carried_from(maker, WHOLE)) != end]
    begun = [node for node in joint.region.inner if joint.stream in flow.makers[node]]
    cuts = [*own, *begun]
    if len(own) != 1 or not begun or not all(takes_rows_alone(flow, one) for one in cuts):
        return None
    taken = {str(flow.steps[one].settings.get("index", "")) for one in cuts if one is not None}
    read = {maker for one in cuts if one is not None for maker in flow.makers[one]}
    return min(begun) if len(taken) == 1 and read == {joint.stream} else None


def find_split(flow: Flow, joint: Joint) -> int | None:
    """The step that cuts the rows of the stream in two, where a sum and its branch read but one of them (Helios)."""
    made = (flow.carried_from(maker, WHOLE - SPLITS) for maker in flow.makers[joint.add])
    for cut in (one for one in made if one is not None and flow.op(one) in SPLITS):
        parts = [record.shape for record in flow.steps[cut].outputs]
        are_rows = len(parts) == 2 and parts[0] != parts[1] and all(part[::2] == parts[0][::2] for part in parts)
        readers = (one for one in flow.readers.get(cut, ()) if one in joint.region.inner or one == joint.add)
        read = {record.shape for one in readers for record, maker in flow.given(one) if maker == cut}
        if are_rows and len(parts[0]) == 3 and read == {flow.output(joint.add).shape}:
            return cut if flow.carried_from(flow.makers[cut][0]) == flow.carried_from(joint.stream) else None
    return None


def find_rejoined(flow: Flow, end: int, cut: int) -> RejoinedRows | None:
    """The rows that stand beside those that a step ends with, where all of both were cut out of one tensor."""
    for join in list_carried_readers(flow, end):
        given = list(flow.given(join)) if flow.op(join) in SIDE_BY_SIDE else []
        own = [flow.carried_from(maker, WHOLE) == end for _, maker in given]
        if len(given) != 2 or own.count(True) != 1 or flow.output(join).shape != flow.steps[cut].inputs[0].shape:
            continue
        in_front = own == [False, True]
        if flow.carried_from(given[own.index(False)][1], WHOLE - SPLITS) == cut and flow.op(cut) in SPLITS:
            return RejoinedRows(join, cut, cut, given[own.index(False)][0].shape[1], in_front, None)
        last = flow.carried_from(given[own.index(False)][1], WHOLE)
        for other in list_others(flow, last, cut):
            way = None if last is None or last == other else find_region(flow, other, last)
            count = count_taken(flow, other)
            if given[own.index(False)][0].shape[1] == count and (way is not None or last == other):
                return RejoinedRows(join, cut, other, count, in_front, way)
    return None


def find_rejoining(flow: Flow, join: int, joints: Mapping[int, Joint]) -> int | None:
    """The sum on some rows alone that a step puts beside the others, as they stood in the stream before; or None.

    So a convolution of a map is added to its places, and a class row goes by (CoaT).
    """
    makers = flow.makers[join] if flow.op(join) in SIDE_BY_SIDE else ()
    for add in (flow.carried_from(maker, WHOLE) for maker in makers):
        joint = None if add is None else joints.get(add)
        cut = None if joint is None else find_taken(flow, joint)
        rows = None if add is None or cut is None else find_rejoined(flow, add, cut)
        if rows is not None and rows.join == join and rows.way is None:
            return add
    return None


def list_others(flow: Flow, last: int | None, cut: int) -> Iterator[int]:
    """The steps behind one that take all other rows out of the tensor that a cut took some of."""
    whole, before = flow.makers[cut][0], flow.steps[cut].inputs[0].shape
    index = str(flow.steps[cut].settings.get("index", ""))
    for node in flow.behind(last, within=lambda one: whole is None or one > whole):
        count = count_taken(flow, node)
        if count and flow.makers[node][0] == whole and whole is not None:
            rows = count + flow.output(cut).shape[1]
            if rows == before[1] and are_apart(str(flow.steps[node].settings.get("index", "")), index, before):
                yield node


def find_added(flow: Flow, rows: RejoinedRows) -> Region | None:
    """What is added to the other rows on their way, where that is one thing; all of the way where nothing is added."""
    way = rows.way
    sums = [] if way is None else [node for node in sorted(way.inner) if adds_rows(flow, node, rows)]
    if way is None or not sums:
        return way
    made = [maker for maker in flow.makers[sums[0]] if flow.carried_from(maker, WHOLE) != rows.other]
    return find_region(flow, rows.other, made[0]) if len(sums) == len(made) == 1 and made[0] is not None else None


def adds_rows(flow: Flow, node: int, rows: RejoinedRows) -> bool:
    """Whether a step adds up rows as those that are put beside the others."""
    shape = flow.output(rows.other).shape
    return flow.op(node) in SUMS and [record.shape for record in flow.steps[node].inputs] == [shape, shape]
