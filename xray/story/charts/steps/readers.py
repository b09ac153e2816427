"""Which boxes of a chart read which others, and what came from outside: through steps that are not drawn."""

from collections.abc import Collection, Mapping

from xray.ir.flow.cut_rows import find_cut_part, find_kept, list_cut_makers
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CASTING,
    LOOKUPS,
    PLACING,
    SOFTMAXES,
)
from xray.ir.records import TensorRecord
from xray.story.passages.joined_rows import label_learned_rows

MOST_BEHIND = 60
PICKS = frozenset({"argmin", "argmax"})


def find_owners(flow: Flow, notable: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """For each step the drawn step that stands for it, if one does.

    None does for one that moves what it stands beside, nor for numbers where the drawn step gives ids: whoever else
    reads these does not read what the box gives (TiTok).
    """
    kinds = {node: flow.output(node).is_float for node in notable if flow.steps[node].outputs}
    groups = {node: frozenset(group) for node, group in notable.items()}
    held = ((node, inner) for node, group in notable.items() for inner in group)
    return {
        inner: node
        for node, inner in held
        if inner == node
        or (
            flow.carried_from(inner) in groups[node]
            and (kinds.get(node, True) or not flow.steps[inner].outputs or not flow.output(inner).is_float)
        )
    }


def readers_of(
    flow: Flow,
    nodes: Collection[int],
    node: int,
    notable: Mapping[int, tuple[int, ...]],
    owner: Mapping[int, int],
) -> set[int]:
    """The drawn steps whose results a drawn step reads, steps that are not drawn between them left out."""
    inside = set(nodes)
    behind = list_undrawn(flow, inside, node, notable, owner)
    return {owner[here] for here in behind if here in owner and owner[here] != node}


def list_read_elsewhere(flow: Flow, nodes: Collection[int], drawn: int, owner: Mapping[int, int]) -> list[int]:
    """The steps that a drawn one stands for whose results others read, through none that is drawn."""
    free = set(nodes).difference(owner)
    held = [node for node, own in owner.items() if own == drawn]

    def goes_out(node: int) -> bool:
        here = flow.ahead(node, within=lambda one: one == node or one in free)
        read = {one for at in here for one in flow.leaf_readers(at)} - free
        return any(owner.get(one) != drawn for one in read)

    return [node for node in held if goes_out(node)]


def reads_outside(
    flow: Flow,
    nodes: Collection[int],
    node: int,
    notable: Mapping[int, tuple[int, ...]],
    owner: Mapping[int, int],
) -> bool:
    """Whether a drawn step reads rows of numbers that a step outside of the part made, through none that is drawn.

    So does one that looks up the rows of codes that were picked outside of it (Emu3).
    """
    inside = set(nodes)
    if any(looks_up_codes(flow, one) for one in notable[node]):
        return True
    behind = [one for one in list_undrawn(flow, inside, node, notable, owner) if one not in owner]
    return any(
        maker is not None and maker not in inside and is_rows(record)
        for one in (*notable[node], *behind)
        for record, maker in flow.given(one)
    )


def looks_up_codes(flow: Flow, node: int) -> bool:
    """Whether a step looks up rows of ids that were worked out as the highest or lowest of many numbers."""
    made = () if flow.op(node) not in LOOKUPS else (maker for record, maker in flow.given(node) if record.role == "ids")
    behind = flow.behind(*made, most=MOST_BEHIND, within=lambda place: not flow.output(place).is_float)
    return any(flow.op(place) in PICKS and flow.steps[place].inputs[0].is_float for place in behind)


def is_rows(record: TensorRecord) -> bool:
    """Whether a tensor has rows of numbers, as a stream has, and no ids, places or masks."""
    return record.role == "activation" and record.is_float and len(record.shape) > 1


def reads(
    flow: Flow,
    nodes: Collection[int],
    node: int,
    notable: Mapping[int, tuple[int, ...]],
    owner: Mapping[int, int],
    makers: Collection[int],
) -> bool:
    """Whether a drawn step reads what some steps outside made, through none that is drawn.

    Be it of rows that are as they were before the last of these steps changed others (Gemma 3n's first stream).
    """
    behind = [one for one in list_undrawn(flow, set(nodes), node, notable, owner) if one not in owner]
    read = {maker for one in (*notable[node], *behind) for maker in list_cut_makers(flow, one)}
    kept = {flow.makers[one][0] for one in behind if find_kept(flow, one) is not None}
    return not (read | kept).isdisjoint(makers)


def list_undrawn(
    flow: Flow, inside: Collection[int], node: int, notable: Mapping[int, tuple[int, ...]], owner: Mapping[int, int]
) -> set[int]:
    """The steps inside that lead to a drawn one, as far back as the next ones that are drawn, these included."""
    own = set(notable[node])
    first = [maker for inner in own for maker in list_read(flow, inner, owner)]
    within, ends = (lambda here: here in inside and here not in own), owner.__contains__
    return set(flow.behind(*first, within=within, ends=ends, reads=lambda here: list_read(flow, here, owner)))


def list_read(flow: Flow, node: int, owner: Collection[int]) -> list[int]:
    """The makers of what a step takes; of what it cuts of a join that is drawn the join, where the step is drawn too.

    It says of how many rows it takes some (OSTrack). So does a join that puts learned rows in: no other box tells of
    these (CoaT).
    """
    join = flow.carried_from(flow.makers[node][0], CASTING) if flow.op(node) == "index" else None
    if join is None or join not in owner:
        return list_cut_makers(flow, node)
    is_told = (node in owner and find_cut_part(flow, node) is not None) or bool(label_learned_rows(flow, join))
    return [join] if is_told else list_cut_makers(flow, node)


def attends(flow: Flow, group: Collection[int]) -> bool:
    """Whether a drawn step stands for a whole attention."""
    return len(group) > 1 and any(flow.op(one) in SOFTMAXES for one in group)


def is_of_nothing(flow: Flow, node: int) -> bool:
    """Whether a step makes no number, or puts none into another tensor: a mask let no row through (GLM-Image)."""
    put = [record for record, _ in flow.given(node)][-1:] if flow.op(node) in PLACING else []
    return any(0 in one.shape for one in (*flow.steps[node].outputs[:1], *put))
