"""Normalisation, as one step or spelled out: what was normalised, and which steps did it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    CLAMPS,
    FINDINGS,
    LENGTHS,
    NORMS,
    RMS_NORMS,
    SCALINGS,
    STATISTICS,
    SUMS,
    TIMES,
)
from xray.ir.flow.projections import is_projection
from xray.ir.flow.remembering import once
from xray.story.anatomy.attentions import NormKind
from xray.story.recognition.statistics import (
    BENT,
    LONGEST,
    RUNNING,
    collect_statistics,
    has_statistics,
    is_measure,
    is_of_weights,
    is_side,
    tells_of,
    weighs_places,
)
from xray.story.recognition.values.known_norms import tell_kind

STRIPPED = SUMS | SCALINGS | frozenset({"sub", "sub_", "rsub"})
REGROUPING = frozenset({"view", "reshape", "flatten"})
GATES = frozenset({"sigmoid", "tanh"})
MEASURING = CARRYING | CLAMPS | STATISTICS | STRIPPED | RUNNING | BENT | {"sqrt", "rsqrt", "reciprocal", "sum"}
"""By what alone a mean or a spread becomes what rows are divided by."""
PUTTING = frozenset({"masked_scatter", "masked_scatter_"})
PICKING = frozenset({"index", "masked_select"})
INVERTING = frozenset({"invert", "bitwise_not", "logical_not"})


@dataclass(frozen=True)
class Norm:
    """A normalisation: the step that ends it, all its steps, and the maker of what it reads (None: from outside).

    One that `weighs_first` multiplies by its learned numbers before it divides (Muse Spark).
    """

    end: int
    nodes: tuple[int, ...]
    origin: int | None
    centred: bool
    weighs_first: bool = False


def find_norm(flow: Flow, place: int | None) -> Norm | None:
    """The normalisation that ends at a step; None if it ends none."""
    if place is None:
        return None
    known = keep_norms(flow)
    if place not in known:
        found = seek_norm(flow, place)
        known[place] = None if found is None else take_weights_before(flow, found)
    return known[place]


def name_norm(flow: Flow, norm: Norm) -> NormKind | None:
    """Which norm it is, by what it computes; None if that is not known, or if it takes its measure of several rows."""
    over = (str(flow.steps[node].settings.get("normalized_shape", 1)) for node in norm.nodes)
    if not all(map(str.isdecimal, over)):
        return None
    ops = [flow.op(node) for node in norm.nodes]
    if any(op in LENGTHS | RUNNING | {"normalize"} for op in ops):
        return None
    for start, kind in (("batch_norm", "batch"), ("group_norm", "group"), ("instance_norm", "instance")):
        if any(op.startswith(start) for op in ops):
            return kind  # type: ignore[return-value]
    if len(norm.nodes) > 1 and not is_parted(flow, norm):
        return tell_kind(flow, norm.nodes, norm.origin, norm.end)
    return "layer" if norm.centred else "rms"


def spell_norm(flow: Flow, norm: Norm) -> str:
    """What a norm is called in a box."""
    return f"{name_norm(flow, norm) or ''} norm".strip().upper()


@once
def keep_norms(flow: Flow) -> dict[int, Norm | None]:
    """What was found before at each step."""
    del flow
    return {}


def seek_norm(flow: Flow, place: int) -> Norm | None:
    """The normalisation that ends at a step, looked for."""
    step = flow.steps[place]
    if is_norm_leaf(flow, place):
        return Norm(place, (place,), flow.makers[place][0], step.op not in RMS_NORMS)
    if flow.op(place) in PUTTING:
        return seek_parted(flow, place)
    nodes: list[int] = []
    statistics: set[int] = set()
    weighing: set[int] = set()
    begun = 0
    is_scaled = is_by_one = False
    here: int | None = place
    width = step.outputs[0].shape[-1:] if step.outputs else ()
    while here is not None and len(nodes) < LONGEST:
        step = flow.steps[here]
        if step.op in CASTING and flow.makers[here]:
            nodes.append(here)
            here = flow.makers[here][0]
            continue
        if nodes and not begun and lays_groups_together(flow, here) and gives_weights(flow, nodes):
            nodes.append(here)
            here = flow.makers[here][0]
            continue
        if nodes and not begun and is_without_weights(flow, here) and gives_weights(flow, nodes):
            if any(reader not in nodes for reader in flow.leaf_readers(here)):
                break  # others read it without these weights: they stand behind the norm (Transfusion)
            return Norm(place, tuple(sorted({*nodes, *weighing, here})), flow.makers[here][0], step.op not in RMS_NORMS)
        if step.op not in STRIPPED or not step.outputs:
            break
        full = [number for number, one in enumerate(step.inputs) if one.shape == step.outputs[0].shape]
        side = [number for number in range(len(step.inputs)) if number not in full]
        if len(full) != 1 or not all(is_side(flow, here, number, width) for number in side):
            break
        beside = {number: maker for number in side if (maker := flow.makers[here][number]) is not None}
        telling = [number for number, maker in beside.items() if has_statistics(flow, maker)]
        if any(weighs_places(flow, here, number) for number in beside if number not in telling):
            break  # a number for each place that tells nothing of it: a mask of padding (DeBERTa), or of how far it is
        if not begun and any(is_learned_gate(flow, maker) for maker in beside.values()):
            break  # a gate that learned numbers open stands behind a norm, and is none of its own (Muse Spark)
        if not begun and step.op in SCALINGS:
            is_by_one = is_by_one or any(is_one_learned(flow, here, number) for number in side)
        spreads = step.op in SCALINGS and bool(telling)
        if spreads and is_scaled:
            break  # another norm, that this one reads (nanochat)
        is_scaled = is_scaled or spreads
        for maker in beside.values():
            found = collect_statistics(flow, maker)
            is_bent = maker in map(beside.get, telling) and not all(flow.op(one) in MEASURING for one in found)
            if is_bent or any(is_projection(flow, one) or flow.op(one) in FINDINGS for one in found):
                return None  # how much of a channel goes on is worked out of its mean (squeeze and excite)
            weighing |= found
            if any(is_measure(flow, one) for one in found):
                begun, statistics = len(nodes) + 1, set(weighing)
        nodes.append(here)
        if begun == len(nodes) and step.op in ("sub", "sub_"):
            break  # what a mean is taken off is what the norm reads, be it what another one gives (RetroFormer)
        here = flow.makers[here][full[0]]
    means = [one for one in statistics if is_measure(flow, one)]
    nodes = nodes[:begun]
    if not means or not nodes:
        return None
    if is_by_one and LENGTHS.isdisjoint(map(flow.op, means)):
        return None  # one learned number stands behind a norm, and is none of its own (Moonshine Streaming)
    first = nodes[-1]
    entry = next(number for number, one in enumerate(flow.steps[first].inputs) if one.shape == flow.output(first).shape)
    centred = any(flow.op(node) in ("sub", "sub_") for node in nodes)
    origin = flow.makers[first][entry]
    if not tells_of(flow, origin, statistics) or not is_scaled:
        return None  # a mean that is added or taken off is no norm's
    spread = {
        maker
        for node in statistics
        for maker in flow.makers[node]
        if maker is not None and flow.op(maker) == "sub" and statistics.union((origin,)).issuperset(flow.makers[maker])
    }
    return Norm(place, tuple(sorted({*nodes, *statistics, *spread})), origin, centred)


def take_weights_before(flow: Flow, norm: Norm) -> Norm:
    """A norm without learned numbers, with the step before that multiplies by such what it alone reads; else itself."""
    weighed = flow.carried_from(norm.origin, CASTING)
    shape = () if weighed is None else flow.output(weighed).shape
    if weighed is None or flow.op(weighed) not in TIMES or norm.centred or has_weights(flow, norm.nodes):
        return norm
    rows = [maker for record, maker in flow.given(weighed) if record.shape == shape]
    held = [(record, maker) for record, maker in flow.given(weighed) if record.shape == shape[-1:]]
    ahead = flow.ahead(weighed, within=lambda one: one == weighed or flow.op(one) in CASTING)
    own = {one for one in ahead if flow.is_leaf(one)}
    readers = {reader for one in own for reader in flow.leaf_readers(one)}
    if len(rows) != 1 or len(held) != 1 or not is_of_weights(flow, *held[0]) or not readers <= own.union(norm.nodes):
        return norm
    made = () if held[0][1] is None else flow.behind(held[0][1])
    return Norm(norm.end, tuple(sorted({*norm.nodes, *own, *made})), rows[0], norm.centred, weighs_first=True)


def has_weights(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether some steps work with learned numbers."""
    given = (one for node in nodes for one in flow.given(node))
    return any(flow.steps[node].params for node in nodes) or any(is_of_weights(flow, *one) for one in given)


def is_without_weights(flow: Flow, place: int) -> bool:
    """Whether one step normalises and multiplies by no learned numbers."""
    step = flow.steps[place]
    return is_norm_leaf(flow, place) and not step.params and len(flow.makers[place]) == 1


def lays_groups_together(flow: Flow, place: int) -> bool:
    """Whether a step lays the last two axes of rows into one: channels that were normalised by groups (Mamba 2)."""
    step = flow.steps[place]
    if flow.op(place) not in REGROUPING or not flow.makers[place]:
        return False
    before, after = step.inputs[0].shape, flow.output(place).shape
    return len(before) > 2 and before[:-2] == after[:-1]


def gives_weights(flow: Flow, nodes: Sequence[int]) -> bool:
    """Whether steps behind a norm do nothing but multiply by numbers that are learned, and add such (Moonshine).

    Each has as many as a row: one number for all is no norm's (the slope of Moonshine Streaming's asinh).
    """
    weights = [
        prod(record.shape) > 1 and is_of_weights(flow, record, maker)
        for node in nodes
        for record, maker in flow.given(node)
        if record.shape != flow.output(node).shape and flow.op(node) not in REGROUPING
    ]
    return bool(weights) and all(weights)


def list_factors(flow: Flow, norm: Norm) -> list[int]:
    """The steps at the end of a norm that multiply by one number what its weights gave (Gemma 3n's routers)."""
    here, found = flow.carried_from(norm.end), list[int]()
    while (
        here is not None and flow.op(here) in SCALINGS and all(one.shape == () for one in flow.steps[here].inputs[1:])
    ):
        found.append(here)
        here = flow.carried_from(flow.makers[here][0])
    return found if here in norm.nodes and gives_weights(flow, [here]) else []


def is_one_learned(flow: Flow, place: int, number: int) -> bool:
    """Whether an operand is one number that is learned, or worked out of such alone."""
    record = flow.steps[place].inputs[number]
    return prod(record.shape) == 1 and is_of_weights(flow, record, flow.makers[place][number])


def is_weighed_twice(flow: Flow, norm: Norm) -> bool:
    """Whether rows are multiplied by learned numbers twice: a norm's own, and others behind these (Gemma 3n)."""
    weighed = [
        node
        for node in norm.nodes
        if flow.op(node) in SCALINGS
        and any(
            prod(record.shape) > 1
            and record.shape != flow.output(node).shape
            and is_of_weights(flow, record, maker)
            and not (maker is not None and has_statistics(flow, maker))
            for record, maker in flow.given(node)
        )
    ]
    return len(weighed) > 1


def seek_parted(flow: Flow, place: int) -> Norm | None:
    """The norm of two kinds of rows, each with weights of its own: those a mask picks, and all others (Higgs Audio V2).

    Rows of one kind are picked, normalised and put back, and behind that those of the other kind.
    """
    second = find_put_back(flow, place)
    first = None if second is None or second.origin is None else find_put_back(flow, second.origin)
    if first is None or second is None or first.centred != second.centred:
        return None
    if not are_opposite(flow, flow.makers[first.end][1], flow.makers[place][1]):
        return None
    return Norm(place, tuple(sorted({*first.nodes, *second.nodes})), first.origin, first.centred)


def find_put_back(flow: Flow, place: int) -> Norm | None:
    """The norm of rows that a mask picks, which a step puts back where they were; None where it does no such thing."""
    if flow.op(place) not in PUTTING or len(flow.makers[place]) != len(("rows", "mask", "normed")):
        return None
    rows, _, normed = flow.makers[place]
    norm = find_norm(flow, flow.carried_from(normed, CASTING))
    picking = None if norm is None else norm.origin
    if norm is None or picking is None or flow.op(picking) not in PICKING or flow.makers[picking][:1] != (rows,):
        return None
    return Norm(place, tuple(sorted({*norm.nodes, picking, place})), rows, norm.centred)


def are_opposite(flow: Flow, one: int | None, other: int | None) -> bool:
    """Whether one mask shows what another one hides, and hides what that shows."""
    masks = [flow.carried_from(mask) for mask in (one, other)]
    inverted = [flow.op(mask) in INVERTING for mask in masks if mask is not None]
    shown = [
        flow.carried_from(flow.makers[mask][0]) if mask is not None and flow.op(mask) in INVERTING else mask
        for mask in masks
    ]
    return sorted(inverted) == [False, True] and shown[0] == shown[1] is not None


def is_parted(flow: Flow, norm: Norm) -> bool:
    """Whether a norm has weights for each of two kinds of rows."""
    return len(norm.nodes) > 1 and flow.op(norm.end) in PUTTING


def is_learned_gate(flow: Flow, place: int) -> bool:
    """Whether a step bends what is worked out of learned numbers alone."""
    bent = flow.carried_from(place)
    if bent is None or flow.op(bent) not in GATES:
        return False
    return is_of_weights(flow, flow.output(bent), bent)


def is_norm_leaf(flow: Flow, place: int) -> bool:
    """Whether one step normalises: torch's own."""
    step = flow.steps[place]
    shapes = [one.shape for one in (*step.inputs[:1], *step.outputs[:1])]
    if len(shapes) != len(("given", "made")) or shapes[0] != shapes[1] or not shapes[0]:
        return False
    return step.op in NORMS or (step.op == "normalize" and step.settings.get("dim", 1) in (-1, len(shapes[0]) - 1))
