"""What is told of the cells of a mask: that they are padding, or the future, only where that is proven."""

from dataclasses import replace
from itertools import groupby

from xray.ir.flow.dataflow import Flow
from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, MaskFacts, TensorRecord
from xray.story.recognition.addends import MOST_BEHIND

COMPARING = frozenset({"eq", "ne", "gt", "lt", "ge", "le"})
COUNTED = frozenset({"arange", "cumsum", "range"})
NO_PADDING = str.maketrans({PADDING: HIDDEN, BOTH: FUTURE})
NO_FUTURE = str.maketrans({FUTURE: HIDDEN, BOTH: PADDING})


def read_proven(
    flow: Flow, record: TensorRecord, *, causal: bool | None = True, has_room: bool = False
) -> MaskFacts | None:
    """The facts of a mask, of which cells that are not proven to be padding, or the future, are only hidden.

    Where a cache `has_room` behind the keys of queries, its last keys may be that.
    """
    facts = record.mask
    if facts is None:
        return None
    if facts.kind in ("padding", "padding+causal", "custom") and not is_of_padding(flow, record, facts, has_room):
        facts = leave_out(facts, NO_PADDING)
    return facts if causal else leave_out(facts, NO_FUTURE)


def leave_out(facts: MaskFacts, letters: dict[int, str]) -> MaskFacts:
    """The facts with other letters; they are of no kind that tells of those that are left out."""
    cells = facts.cells and tuple(tuple(row.translate(letters) for row in matrix) for matrix in facts.cells)
    told = "padding" if PADDING in map(chr, letters) else "causal"
    return replace(facts, cells=cells, kind="custom" if told in facts.kind else facts.kind)


def is_of_padding(flow: Flow, record: TensorRecord, facts: MaskFacts, has_room: bool) -> bool:
    """Whether keys hidden from all lie at one end of each row, and the mask is made of what tells padding.

    That is an argument that is called a mask or lengths, ids held to one number, or places that were counted held to
    numbers that were not.
    """
    if not all(lies_at_end(row, has_room) for matrix in facts.cells or () for row in matrix[-1:]):
        return False
    place = flow.places.get(record.source or "")
    ways = [*flow.behind(place, most=MOST_BEHIND)]
    given = [record, *(one for node in ways for one in flow.steps[node].inputs)]
    names = {(one.argument or one.given or "").rpartition(".")[2] for one in given}
    is_named = any(name.endswith(("mask", "masks")) or "pad" in name or "len" in name for name in names)
    return is_named or "padding" in record.name or any(tells_padding(flow, node) for node in ways)


def lies_at_end(row: str, has_room: bool) -> bool:
    """Whether what is hidden from all in a row are its first keys, or its last, but where these may be room."""
    runs = [is_hidden for is_hidden, _ in groupby(letter in (PADDING, BOTH) for letter in row)]
    return not any(runs) or (sum(runs) == 1 and (runs[0] or (runs[-1] and not has_room)))


def tells_padding(flow: Flow, node: int) -> bool:
    """Whether a step holds ids to one number, or counted places to numbers that were not counted, as lengths."""
    whole = [maker for record, maker in flow.given(node) if not record.is_float and record.dtype != "bool"]
    counts = [any(flow.op(one) in COUNTED for one in flow.behind(maker)) for maker in whole]
    return flow.op(node) in COMPARING and (counts == [False] or sorted(counts) == [False, True])
