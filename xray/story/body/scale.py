"""By what a branch is multiplied before it is added to the stream."""

from collections.abc import Collection, Sequence
from math import isclose, prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, DIVISIONS, DROPOUTS, SCALINGS, SIDE_BY_SIDE
from xray.story.branches.before_last import is_learned
from xray.story.branches.scored.caps import find_cap, read_factor
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import is_linear
from xray.story.recognition.norms import find_norm
from xray.story.recognition.statistics import is_of_weights
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.scaled_streams import is_by_weights

MOST_MOVES = 12
Scale = Literal["learned", "number", "tanh"]


def name_scale(flow: Flow, end: int, nodes: Collection[int]) -> Scale | None:
    """By what a branch is multiplied at its end: learned numbers, one that is the same for all, tanh of one."""
    if find_tanh_gate(flow, end, nodes) is not None:
        return "tanh"
    found = find_scale(flow, end, nodes)
    if found is None:
        return None
    if multiplies_learned(flow, found):
        return "learned"
    return None if takes_back(flow, found, nodes) else "number"


def takes_back(flow: Flow, scale: int, nodes: Collection[int]) -> bool:
    """Whether a step multiplies by a number by which another step of the branch divided (the keys of LoFTR)."""
    own = read_factor(flow, scale)
    others = (read_factor(flow, node) for node in nodes if node != scale)
    return own is not None and any(one is not None and isclose(own * one, 1, rel_tol=1e-6) for one in others)


def find_scale(flow: Flow, end: int, nodes: Collection[int]) -> int | None:
    """The step that ends a branch by multiplying it by learned numbers, or by one that is not 1."""
    here: int | None = end
    for _ in range(MOST_MOVES):
        if here is None or here not in nodes:
            return None
        step = flow.steps[here]
        if step.op in SCALINGS:
            if multiplies_learned(flow, here):
                return here if find_norm(flow, here) is None and not is_by_place(flow, here) else None
            return here if len(step.inputs) == 1 and number(step) not in (None, 1) else None
        onward = find_put_beside(flow, here, nodes)
        if onward is None and (step.op not in CARRYING | DROPOUTS or not flow.makers[here]):
            return None
        here = onward or flow.makers[here][0]
    return None


def find_put_beside(flow: Flow, node: int, nodes: Collection[int]) -> int | None:
    """What made the rows of a branch that a step puts beside other rows, which are no more than moved (XCiT)."""
    ways = [maker for maker in flow.makers[node] if maker is not None] if flow.op(node) in SIDE_BY_SIDE else []
    own = [maker for maker in ways if flow.carried_from(maker) in nodes]
    return own[0] if len(own) == 1 < len(ways) else None


def multiplies_learned(flow: Flow, node: int) -> bool:
    """Whether a step multiplies by learned numbers, be they given other axes before (VibeVoice), or worked out."""
    return any(is_learned(flow, *given) for given in flow.given(node)) or is_by_weights(flow, node)


def is_by_place(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows by numbers of which there is one for each place, and not for each channel."""
    axis = find_channels(flow, node)
    if axis is None:
        return False
    from_last = axis - len(flow.output(node).shape)
    shapes = [record.shape for record in flow.steps[node].inputs if record.shape != flow.output(node).shape]
    return any(prod(shape) > 1 and (len(shape) < -from_last or shape[from_last] == 1) for shape in shapes)


def multiplies_by_learned(flow: Flow, node: int) -> bool:
    """Whether a step multiplies by learned numbers, be they bent or scaled before (TimesFM's queries)."""
    if flow.op(node) not in SCALINGS - DIVISIONS or len(flow.steps[node].inputs) != len(("rows", "numbers")):
        return False
    return any(is_of_weights(flow, *given) for given in flow.given(node))


def list_bendings(flow: Flow, head: int) -> tuple[list[int], list[int]]:
    """What multiplies all scores of a head by one number, or bends them by tanh: before its linear layer, and behind.

    Both in order, what only moves numbers left out. Nothing behind it where that meets what was made of the scores in
    another way: bent softly, 15·x / √(x² + 225) (modded-nanogpt).
    """
    before: list[int] = []
    here = flow.makers[head][0]
    while here is not None and (flow.op(here) in CARRYING | DROPOUTS or read_factor(flow, here) is not None):
        before.insert(0, here)
        here = flow.makers[here][0] if flow.makers[here] else None
    behind: list[int] = []
    onward: int | None = head
    while onward is not None:
        readers = (one for one in flow.leaf_readers(onward) if len(flow.makers[one]) == 1)
        known = CARRYING | DROPOUTS | {"tanh"}
        onward = next((one for one in readers if flow.op(one) in known or read_factor(flow, one) is not None), None)
        behind += [] if onward is None else [onward]
    behind = [] if meets_others(flow, head, behind) else behind
    kept = [[one for one in way if flow.op(one) not in CARRYING | DROPOUTS] for way in (before, behind)]
    return kept[0], kept[1] if "tanh" not in map(flow.op, kept[1]) or find_cap(flow, kept[1]) else []


def find_bent(flow: Flow, top: int | None) -> int | None:
    """The linear layer of which a step gives nothing but all scores multiplied or bent by tanh; else the step."""
    here = top
    while here is not None and not is_linear(flow, here):
        bends = flow.op(here) in CARRYING | DROPOUTS | {"tanh"} or read_factor(flow, here) is not None
        here = flow.makers[here][0] if bends and flow.makers[here] else None
    return here if here is not None and top in list_bendings(flow, here)[1] else top


def meets_others(flow: Flow, head: int, way: Sequence[int]) -> bool:
    """Whether a step that reads the last one of a way from a head reads other things of that head, made beside it."""
    if not way:
        return False
    beside = set(flow.ahead(head, within=lambda one: one != way[-1])) - {*way}
    return any(not beside.isdisjoint(flow.makers[one]) for one in flow.leaf_readers(way[-1]))


def read_bending(flow: Flow, head: int) -> tuple[float | None, float | None, float | None]:
    """By what number the scores of a head are multiplied, which they cannot pass, and by what its rows are multiplied.

    None where there is none. What is multiplied before the bend and back behind it is the cap's own.
    """
    before, behind = list_bendings(flow, head)
    return read_product(flow, behind), find_cap(flow, behind), read_product(flow, before)


def read_product(flow: Flow, nodes: Collection[int]) -> float | None:
    """By what number steps multiply, all of them together; None where that leaves all as it is."""
    product = prod(factor for node in nodes if (factor := read_factor(flow, node)) is not None)
    return None if isclose(product, 1, rel_tol=1e-6) else product


def find_tanh_gate(flow: Flow, end: int, nodes: Collection[int]) -> int | None:
    """The step that ends a branch by multiplying it by tanh of learned numbers, which are 0 at first (Idefics)."""
    here: int | None = end
    for _ in range(MOST_MOVES):
        if here is None or here not in nodes:
            return None
        if flow.op(here) in SCALINGS:
            return here if any(is_tanh_of_learned(flow, maker) for maker in flow.makers[here]) else None
        if flow.op(here) not in CARRYING | DROPOUTS or not flow.makers[here]:
            return None
        here = flow.makers[here][0]
    return None


def is_tanh_of_learned(flow: Flow, maker: int | None) -> bool:
    """Whether a step bends a parameter by tanh, and reads nothing else."""
    maker = flow.carried_from(maker)
    return (
        maker is not None
        and flow.op(maker) == "tanh"
        and {one.role for one in flow.steps[maker].inputs} == {"parameter"}
    )


def name_tanh_gate(flow: Flow, node: int) -> str:
    """What it is called to multiply rows by tanh of one learned number, or of several."""
    gates = (record for record, maker in flow.given(node) if is_tanh_of_learned(flow, maker))
    return f"× TANH OF {'A LEARNED NUMBER' if all(prod(one.shape) == 1 for one in gates) else 'LEARNED NUMBERS'}"


def find_bend_behind(flow: Flow, add: int) -> int | None:
    """The bend through which alone all that a sum makes goes on: the stream goes through it too (ResNet)."""
    readers = flow.leaf_readers(add)
    is_bend = len(readers) == 1 and flow.op(readers[0]) in CURVES
    return readers[0] if is_bend and flow.output(readers[0]).shape == flow.output(add).shape else None
