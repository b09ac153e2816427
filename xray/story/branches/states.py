"""States that are handed on from place to place: what changes them, and what is known of their keys and values."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from math import prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, MASKINGS, REPEATS, SCALINGS, SOFTMAXES, SPLITS, SUMS, ZEROS
from xray.ir.flow.projections import is_product
from xray.ir.records import TensorRecord
from xray.story.anatomy.branches import LinearAttention, Recurrence, StateHeads
from xray.story.branches.convolutions import describe_convolution
from xray.story.passages.channels import find_channels, is_comparison
from xray.story.passages.held_factors import is_given, list_fed
from xray.story.recognition.between import Region, is_linear, projections_in, width_out
from xray.story.recognition.lengths import divides_by_length
from xray.story.states.operands import (
    LEAST_TURNS,
    find_filled,
    find_operands,
    list_outer_products,
    sums_outer_products,
)
from xray.story.states.scans import find_scan

Kind = Literal["state space", "linear attention", "gated"] | None
TO_PIECES = CARRYING | REPEATS | MASKINGS | {"pad"}
"""What stands between a running sum within pieces and one over these."""


def describe_recurrence(flow: Flow, nodes: Collection[int]) -> Recurrence | None:
    """The facts of a state that is changed and handed on, place after place, with its convolution; None if none is."""
    found, beside = find_recurrence(flow, nodes), describe_convolution(flow, nodes)
    if found is None:
        return None
    filled = find_filled(flow, nodes) if found.by_pieces else None
    one_piece = found.one_piece or (filled is not None and filled[0] == 1) or None
    return replace(found, kernel=None if beside is None else beside.kernel, filled=filled, one_piece=one_piece)


def find_recurrence(flow: Flow, nodes: Collection[int]) -> Recurrence | None:
    """What is known of a state itself; None if none is changed.

    Proven by a chain of sums of one shape, each of which adds to a multiple of the one before it, for parts of rows.
    Which family it is of is told where decays are made by exp (state space) or outer products of keys and values are
    added up.
    """
    chain = longest_chain(flow, nodes)
    ops = Counter(flow.op(node) for node in nodes if flow.is_leaf(node))
    if chain is not None and not are_scores(flow, chain) and reads_parts(flow, chain, nodes):
        matrix = sums_outer_products(flow, chain, nodes)
        kind: Kind = "linear attention" if matrix else name_state(len(flow.output(chain).shape), ops)
        heads = describe_state_heads(flow, nodes) if matrix else None
        return Recurrence(kind, flow.output(chain).shape, by_pieces=goes_by_pieces(flow, nodes), heads=heads)
    matrices = ((node, find_matrix(flow, node, nodes)) for node in sorted(nodes, reverse=True))
    read, state = next(((node, record) for node, record in matrices if record is not None), (0, None))
    if state is not None:
        changes, places = list_changing(flow, nodes, state.shape), count_places(flow, nodes)
        rows = [flow.steps[one].inputs[0].shape[-1] for one in changes] or [flow.output(read).shape[-2]]
        return Recurrence(
            "linear attention",
            state.shape,
            by_pieces=len(changes) < places and (bool(changes) or rows[0] > 1),
            heads=describe_state_heads(flow, nodes),
            one_piece=rows == [places] or None,
        )
    if sums_pieces(flow, nodes):
        is_space = ops["softplus"] and ops["conv1d"]
        return Recurrence("state space" if is_space else None, None, by_pieces=True)
    scan, places = find_scan(flow, nodes), count_places(flow, nodes)
    is_space = scan is not None and name_state(len(scan.whole.shape), ops) == "state space"
    if scan is not None and is_space and places in scan.whole.shape and scan.turns + 1 < places:
        return Recurrence("state space", scan.whole.shape, at_once=True)
    return None


def reads_parts(flow: Flow, chain: int, nodes: Collection[int]) -> bool:
    """Whether what leads to a chain is read part by part of one tensor, and not number by number of each row."""
    parts: Counter[int | None] = Counter()
    for node in flow.behind(chain, within=nodes.__contains__):
        if flow.op(node) in SPLITS | {"unbind"}:
            parts[node] = len(flow.steps[node].outputs)
        elif flow.op(node) == "index" and not picks_numbers(flow, node):
            parts[flow.makers[node][0]] += 1
    return max(parts.values(), default=0) >= LEAST_TURNS


def picks_numbers(flow: Flow, node: int) -> bool:
    """Whether a step picks along the numbers of each row: the last axis of what a layer gives, or of d_model."""
    own = [one for one in str(flow.steps[node].settings.get("index", "")).replace(" ", "").split(",") if one != "None"]
    place = next((place for place, one in enumerate(own) if one not in (":", "...")), 0)
    record, maker = next(flow.given(node))
    place += len(record.shape) - len(own) if "..." in own[:place] else 0
    is_last = place == len(record.shape) - 1
    return is_last and (record.axes[-1] == "d_model" or (maker is not None and is_linear(flow, maker)))


def describe_state_heads(flow: Flow, nodes: Collection[int]) -> StateHeads | None:
    """The facts of the queries, keys and values of a state; None where they are not proven."""
    found = find_operands(flow, nodes)
    if found is None:
        return None
    query, key, value = found.query, found.key, found.value
    return StateHeads(
        key.heads,
        value.heads,
        key.width,
        value.width,
        by_length=all(any(divides_by_length(flow, node) for node in way.steps) for way in (query, key)),
        corrects=found.corrects,
        in_order=found.in_order,
        fades=found.fades,
        fades_alike=found.fades_alike,
        writes=found.writes,
        by_keys=found.by_keys,
    )


def sums_pieces(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether a running sum goes over what a running sum within each piece of the rows came to (Mamba 2).

    What has faded since a piece is exp of such a sum. Running sums over places alone are none: they tell how much of a
    place is left at each other one, of all pairs at once (xLSTM in parallel).
    """
    sums = [node for node in nodes if flow.op(node) == "cumsum" and leads_to_exp(flow, node, nodes)]
    within = (flow.carried_from(flow.makers[node][0], TO_PIECES) for node in sums)
    return any(one in nodes and flow.op(one) == "cumsum" for one in within if one is not None)


def leads_to_exp(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether exp is worked out of what a step among some made."""
    return flow.is_leaf(node) and "exp" in map(flow.op, flow.ahead(node, within=nodes.__contains__))


def name_state(axes: int, ops: Counter[str]) -> Kind:
    """The family of a state: one number for each channel behind sigmoid gates, or a row of numbers that decay."""
    if axes == 2:
        return "gated" if ops["sigmoid"] and not ops["maximum"] else None
    return "state space" if ops["exp"] and ops["softplus"] else None


def find_matrix(flow: Flow, node: int, nodes: Collection[int]) -> TensorRecord | None:
    """The state that a step adds keys times values to, or that it looks into; None if it does neither."""
    if sums_outer_products(flow, node, nodes) and not are_scores(flow, node):
        return flow.output(node)
    if not is_product(flow, node) or len(flow.output(node).shape) != 4:
        return None
    record, maker = list(flow.given(node))[-1]
    root = flow.carried_from(maker)
    begins = flow.op(root) in ZEROS if root is not None else comes_in(flow, record, maker)
    return record if begins and root not in nodes else None


def are_scores(flow: Flow, node: int) -> bool:
    """Whether a softmax makes weights of what a step makes: no state, then."""
    shape = flow.output(node).shape
    ahead = flow.ahead(node, within=lambda one: flow.output(one).shape == shape and not is_product(flow, one))
    return any(flow.op(one) == "softmax" for one in ahead)


def comes_in(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether numbers that no step of a pass made came in, be they moved then: the model does not hold them."""
    return maker in list_fed(flow) if maker is not None else is_given(flow, record)


def goes_by_pieces(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether a state is changed fewer times than there are places: each time by several of them (Qwen 3.5).

    Changes count of a state that begins anew now and then, as they do of one that goes on.
    """
    return 0 < count_changing(flow, nodes) < count_places(flow, nodes) - 1


def count_changing(flow: Flow, nodes: Collection[int]) -> int:
    """How many sums change a state: as large as the last of a chain, each adds to a multiple of such numbers."""
    last = longest_chain(flow, nodes)
    shape = None if last is None else flow.output(last).shape
    sums = (one for one in nodes if flow.op(one) in SUMS and flow.output(one).shape == shape)
    scaled = ([maker for maker in flow.makers[one] if maker is not None and flow.op(maker) in SCALINGS] for one in sums)
    return sum(any(flow.output(maker).shape == shape for maker in makers) for makers in scaled)


def list_changing(flow: Flow, nodes: Collection[int], state: tuple[int, ...]) -> list[int]:
    """The products of keys and values that change a state, be they too few for a chain, as of all places at once.

    The last one leads to no row any more: it is looked for among all steps between the first and the last.
    """
    span = range(min(nodes), max(nodes) + 1)
    sums = (node for node in span if sums_outer_products(flow, node, span) and flow.output(node).shape == state)
    return [next(one for one in list_outer_products(flow, node) if one in span) for node in sums]


def count_places(flow: Flow, nodes: Collection[int]) -> int:
    """How many rows each line has that steps read from outside, those that the model holds left out; 0 without any."""
    outside = list_fed(flow) - set(nodes)
    rows = [
        record.shape
        for node in nodes
        for record, maker in flow.given(node)
        if (is_given(flow, record) if maker is None else maker in outside)
    ]
    return min((shape[-2] for shape in rows if len(shape) > 2), default=0)


def longest_chain(flow: Flow, nodes: Collection[int]) -> int | None:
    """The last of at least `LEAST_TURNS` sums of which each adds to a multiple of the one before it, of the largest."""

    def size_of(count: int, node: int) -> tuple[int, int]:
        return count, prod(flow.output(node).shape)

    length: dict[int, int] = {}
    best: int | None = None
    for node in sorted(nodes):
        if flow.op(node) not in SUMS or not flow.steps[node].outputs or len(flow.output(node).shape) < 2:
            continue
        if any(axis.endswith("_len") for axis in flow.output(node).axes):
            continue  # something is made for each place at once: it goes from none to another
        count = 1
        for maker in flow.makers[node]:
            if maker is None or flow.op(maker) not in SCALINGS or flow.output(maker).shape != flow.output(node).shape:
                continue
            if any(is_comparison(flow, one) for one in flow.makers[maker]):
                continue  # a mask of what counts, by which nothing decays (VITS)
            for before in list_read_whole(flow, maker):
                if before in length and flow.output(before).shape == flow.output(node).shape:
                    count = max(count, length[before] + 1)
        length[node] = count
        if count >= LEAST_TURNS and (best is None or size_of(count, node) >= size_of(length[best], best)):
            best = node
    return best


def list_read_whole(flow: Flow, node: int) -> Iterator[int]:
    """What made all that a step reads, moved as it may be.

    Not what wrote a part of more numbers that others wrote too: other parts of these may be read (a scan in place).
    """
    for record, maker in (flow.before_moves(*given) for given in flow.given(node)):
        if maker is not None and record.shape == flow.output(maker).shape:
            yield maker


def describe_linear_attention(flow: Flow, region: Region) -> LinearAttention | None:
    """The facts of an attention that sums products of keys and values over all places first; None where none is proven.

    Proven by sizes: the first product sums over as many as there are places, and makes no axis as long; the second
    one multiplies that by rows of all places. Three linear layers, or parts of one, lead there, and no softmax does.
    """
    nodes, shape = region.inner, flow.output(region.end).shape
    channels = find_channels(flow, region.end)
    products = [node for node in sorted(nodes) if flow.op(node) in ("matmul", "bmm") and is_product(flow, node)]
    if channels is None or any(flow.op(node) in SOFTMAXES for node in nodes):
        return None
    places = prod(shape) // (shape[0] * shape[channels])
    for node in products:
        makers = {flow.carried_from(maker): maker for maker in flow.makers[node]}
        summed = next((one for one in makers if one in products and sums_places(flow, one, places)), None)
        asks = [maker for one, maker in makers.items() if one != summed]
        if summed is None or not asks or places not in flow.output(node).shape[-2:]:
            continue
        ways = [flow.behind(*made, within=nodes.__contains__) for made in (asks, flow.makers[summed])]
        asking, asked = (projections_in(flow, [*way]) for way in ways)
        if asking and asked:
            return count_summed(flow, node, {width_out(flow, one) for one in asked})
    return None


def sums_places(flow: Flow, product: int, places: int) -> bool:
    """Whether a product sums over as many as there are places, and makes no axis as long as that."""
    return flow.steps[product].inputs[0].shape[-1] == places and places not in flow.output(product).shape[-2:]


def count_summed(flow: Flow, product: int, widths: Collection[int]) -> LinearAttention:
    """The heads of such an attention, by the product with its queries and how wide layers are that make its keys."""
    shape, d_k = flow.output(product).shape, flow.steps[product].inputs[0].shape[-1]
    heads = prod(shape[1:-2])
    is_known = not {heads * d_k, 3 * heads * d_k}.isdisjoint(widths)  # of one layer for all three, or one for each
    return LinearAttention((), True, heads=heads, d_k=d_k) if is_known else LinearAttention((), True)
