"""Which widths have a word: d_model is that of a residual stream, d_ff that of a layer out of it and back into it."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, COUNTING, CURVES, DROPOUTS, FINDINGS, PRODUCTS, SCALINGS, SUMS
from xray.ir.flow.projections import LINEARS, data_input, is_projection
from xray.ir.flow.written_bends import list_written_bend
from xray.ir.trace import Step

ACTIVATIONS = frozenset({"relu", "gelu", "silu", "relu_", "silu_", "tanh", "quick_gelu", "mish", "hardswish"})
"""What feed-forwards bend with; a sigmoid stands in gates elsewhere too."""
FARTHEST = 600
"""So many steps are gone back from a sum, to where its branch began."""
FARTHEST_IDS = 12
"""So many steps are gone back from the ids of a lookup, to what they were picked from."""
HALVING = frozenset({"chunk", "split", "tensor_split", "unbind"})
ADDING = SUMS | CARRYING | DROPOUTS
MIXING = LINEARS | PRODUCTS | FINDINGS


def list_sums(flow: Flow) -> Iterator[int]:
    """The sums that add to a tensor what was worked out of it."""
    for place, step in enumerate(flow.steps):
        if step.op in SUMS and len(step.inputs) == 2 and flow.is_leaf(place) and is_residual(flow, place):
            yield place


def list_nested(flow: Flow, sums: Mapping[int, int]) -> set[int]:
    """The streams that lie within a branch of another one, whole: they are no streams of the model (MobileBERT).

    `sums` has, for each residual sum, the stream that it is of. One that has no other sum is none to lie within.
    """
    spans = [(min(one for one in flow.makers[add] if one is not None), add, stream) for add, stream in sums.items()]
    many = {stream for stream, count in Counter(sums.values()).items() if count > 1}
    found: set[int] = set()
    for stream in set(sums.values()):
        own = [(begun, add) for begun, add, one in spans if one == stream]
        around = [
            {other for start, end, other in spans if other != stream and start < begun and add < end}
            for begun, add in own
        ]
        others = many.intersection(*around)
        begun, first = min(own)
        starts = [start for start, end, other in spans if other in others and start < begun and first < end]
        found |= {stream} if any(comes_from(flow, first, start) for start in starts) else set()
    return found


def list_around(flow: Flow, sums: Mapping[int, int]) -> set[int]:
    """The streams with a sum around one of another stream, which is worked out of what theirs adds to."""
    begun = {add: min(one for one in flow.makers[add] if one is not None) for add in sums}
    return {
        stream
        for add, stream in sums.items()
        for other, its in sums.items()
        if its != stream and begun[add] < begun[other] and other < add
        if comes_from(flow, other, begun[add]) and comes_from(flow, add, other)
    }


def comes_from(flow: Flow, place: int, start: int) -> bool:
    """Whether a step works with what an earlier one made."""
    return start in flow.behind(place, within=lambda here: here >= start)


def is_residual(flow: Flow, place: int) -> bool:
    """Whether one of both tensors that a step adds up was worked out of the other one."""
    (left, right), (one, other) = flow.steps[place].inputs, flow.makers[place]
    if left.shape != right.shape or len(left.shape) < 2 or one is None or other is None or one == other:
        return False
    return is_made_of(flow, max(one, other), min(one, other))


def is_made_of(flow: Flow, place: int, origin: int) -> bool:
    """Whether what a step makes was worked out of what another one made, with weights or a product on the way.

    A polynomial of the same tensor, such as GELU's, is no branch.
    """
    branch = list(flow.behind(place, most=FARTHEST, within=lambda one: one > origin))
    is_found = any(origin in flow.makers[one] for one in branch)
    return is_found and any(flow.steps[one].params or flow.op(one) in MIXING for one in branch)


def is_layer(step: Step) -> bool:
    """Whether a step is a linear layer over the last axis."""
    if step.op not in ("linear", "conv1d") or "kernel_size" in step.settings:
        return False
    return bool(step.outputs) and bool(step.inputs) and len(step.outputs[0].shape) > 1 and bool(step.inputs[0].shape)


def is_written_layer(flow: Flow, step: Step) -> bool:
    """Whether a step is a linear layer over the last axis that is written as a product with weights (Falcon)."""
    place = flow.places[step.id]
    is_product = step.op in ("matmul", "mm") and is_projection(flow, place) and data_input(flow, place) == 0
    return is_product and len(step.inputs[0].shape) > 1 and len(step.inputs[1].shape) == 2


def reads_alone(step: Step) -> bool:
    """Whether a step reads one tensor that is no parameter."""
    return sum(record.role != "parameter" for record in step.inputs) == 1


def list_gated_halves(flow: Flow, layers: Collection[int]) -> Iterator[int]:
    """The products of both halves of what one of some layers makes, one half bent: a gate and what it lets through."""
    for place, step in enumerate(flow.steps):
        if flow.op(place) not in SCALINGS or len(step.inputs) != 2 or not flow.is_leaf(place):
            continue
        bent = [one for one in flow.makers[place] if one is not None and flow.op(one) in ACTIVATIONS]
        cuts = {flow.makers[one][0] if one in bent else one for one in flow.makers[place]}
        cut = cuts.pop()
        if len(bent) != 1 or cuts or cut is None or flow.op(cut) not in HALVING:
            continue
        if len(flow.steps[cut].outputs) == 2 and flow.makers[cut][0] in layers:
            yield place


def list_bent_in_writing(flow: Flow) -> frozenset[int | None]:
    """The steps whose rows go through an activation that is written out, as GELU by its tanh (BLOOM)."""
    bends = [set(nodes) for place in range(len(flow.steps)) if (nodes := list_written_bend(flow, place))]
    made = ({maker for node in nodes for maker in flow.makers[node]} - nodes - {None} for nodes in bends)
    return frozenset(maker for makers in made for maker in makers if len(makers) == 1)


def gates_rows_beside(flow: Flow, place: int) -> bool:
    """Whether what a layer gives lets through rows that are not made of what it reads (Gemma's for each layer)."""
    origin = flow.carried_from(flow.makers[place][0])
    other = find_factor_beside(flow, place)
    return origin is not None and other is not None and not comes_from(flow, other, origin)


def is_factor(flow: Flow, place: int) -> bool:
    """Whether what a layer gives multiplies other rows, be it bent: no feed-forward ends so, unless in a gate.

    Of these the other factor is what a layer of its own gives, bent at most (RWKV).
    """
    other = find_factor_beside(flow, place)
    return other is not None and not ends_layer(flow, other) and not comes_from(flow, other, place)


def find_factor_beside(flow: Flow, place: int) -> int | None:
    """What made the rows that are multiplied, number by number, by what a layer gives, bent and moved at most.

    Or by that and 1, as a condition scales what a norm gives (Voxtral Realtime).
    """
    todo, seen = [place], {place}
    while todo and len(seen) < FARTHEST_IDS:
        for reader in flow.readers.get(todo.pop(0), ()):
            beside = [maker for maker in flow.makers[reader] if maker not in seen]
            is_scaling = flow.op(reader) in SCALINGS and len(beside) == 1
            if is_scaling and beside[0] is not None and has_rows(flow, reader, beside[0]):
                return beside[0]
            is_moved = flow.op(reader) in CURVES | CARRYING | DROPOUTS
            is_shifted = flow.op(reader) in SUMS and len(flow.steps[reader].inputs) == 1
            if reader not in seen and (is_moved or is_shifted):
                seen.add(reader)
                todo.append(reader)
    return None


def ends_layer(flow: Flow, place: int | None) -> bool:
    """Whether a layer made some numbers, bent and moved at most."""
    while place is not None and flow.op(place) in CURVES | CARRYING | DROPOUTS:
        place = flow.makers[place][0]
    return place is not None and is_layer(flow.steps[place])


def has_rows(flow: Flow, place: int, other: int) -> bool:
    """Whether a step brings what another made together with as many numbers, or all its rows with as wide a one."""
    widths = {record.shape[-1:] for record in flow.steps[place].inputs}
    return len(widths) == 1 and flow.output(place).shape == flow.output(other).shape


def is_lookup_of_places(flow: Flow, place: int) -> bool:
    """Whether the ids of a lookup were counted out, or are the first ones of a row as long as the table."""
    given, maker = next(iter(flow.given(place)), (None, None))
    for _ in range(FARTHEST_IDS):
        if maker is None or not flow.makers[maker]:
            break
        given, maker = next(flow.given(maker))
    rows = count_rows(flow.steps[place])
    counted = maker is not None and flow.op(maker) in COUNTING
    return counted or (maker is None and given is not None and given.shape in ((rows,), (1, rows)))


def is_beside_words(flow: Flow, place: int, tables: Collection[int]) -> bool:
    """Whether what a table gives is added to what a larger one gives: it holds kinds of words, and no words (BERT)."""
    larger = {one for one in tables if count_rows(flow.steps[one]) > count_rows(flow.steps[place])}
    todo, seen = [place] if larger else [], {place}
    while todo and len(seen) < FARTHEST_IDS:
        for reader in flow.readers.get(todo.pop(0), ()):
            if reader in seen or flow.op(reader) not in ADDING or not flow.is_leaf(reader):
                continue
            seen.add(reader)
            todo.append(reader)
            ends = flow.behind(reader, most=FARTHEST_IDS, ends=lambda one: flow.op(one) not in ADDING)
            if not larger.isdisjoint(ends):
                return True
    return False


def count_rows(table: Step) -> int:
    """How many rows a table has, be it a module of its own or a parameter that a function is given (Gemma's words)."""
    rows = table.settings.get("num_embeddings")
    held = (one.shape[0] for one in table.inputs if one.role == "parameter" and len(one.shape) == 2)
    return rows if isinstance(rows, int) else next(held, 0)
