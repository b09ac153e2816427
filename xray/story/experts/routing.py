"""How a router's scores become weights of experts: what bends them, and from where is chosen."""

from collections.abc import Collection, Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SCALINGS, SUMS
from xray.ir.kinds import only_moves
from xray.story.anatomy.branches import Routing
from xray.story.branches.caps import read_factor
from xray.story.recognition.value_shapes import number

BENDS = frozenset({"softmax", "sigmoid", "softplus", "sqrt", "tanh", "relu"})
PICKING = frozenset({"topk", "gather"})
NEXT_TO_NOTHING = 1e-3
"""What is no more than this is added so that nothing is divided by zero."""


def read_routing(
    flow: Flow,
    nodes: Collection[int],
    routing: Collection[int],
    choice: int,
    router: int,
    emptied: Collection[int] = (),
) -> Routing:
    """The facts of a router; `routing` are the steps that work on its scores and on nothing else that data made.

    Those `emptied` make weights 0 of what chose no expert.
    """
    groups = find_groups(flow, routing, choice, router)
    weights = find_weights(flow, nodes, routing)
    way = None if weights is None else walk_back(flow, weights, router, emptied)
    if way is None:
        return Routing(None, None, None, None, groups, None)
    bends = [node for node in way if flow.op(node) in BENDS]
    picks = [node for node in way if flow.op(node) in PICKING]
    is_softmax = bool(picks) and {flow.op(node) for node in bends} == {"softmax"}
    first, last = (way.index(bends[-1]), way.index(bends[0])) if bends else (len(way), len(way))
    if multiply(flow, way[last:first]) is not None:
        return Routing(
            None, None, None, None, groups, None
        )  # a number between two bends, as a cap by tanh has (Laguna)
    return Routing(
        bend=" of ".join(flow.op(node) for node in bends) or "none",
        over=None if not is_softmax else "chosen" if max(bends) > min(picks) else "all",
        divided_by_sum=any(divides_by_sum(flow, node) for node in way),
        factor=multiply(flow, way[:last]),
        groups=groups,
        biased=any(adds_learned(flow, node) for node in flow.behind(choice, within=lambda one: one in routing)),
        scaled=multiply(flow, way[first:]),
    )


def multiply(flow: Flow, way: Sequence[int]) -> float | None:
    """By what number steps multiply in all; None for 1."""
    known = [found for node in way if len(flow.makers[node]) == 1 and (found := read_factor(flow, node)) is not None]
    factor = prod(known)
    return None if abs(factor - 1) < NEXT_TO_NOTHING else factor


def find_weights(flow: Flow, nodes: Collection[int], routing: Collection[int]) -> int | None:
    """What the router says that what experts give is multiplied by; None if that is not one thing."""
    found = {
        maker
        for node in nodes
        if node not in routing and flow.is_leaf(node) and flow.op(node) in SCALINGS and len(flow.makers[node]) == 2
        for record, maker in flow.given(node)
        if maker in routing and record.is_float
    }
    apart = {flow.carried_from(maker) for maker in found}
    return max(found) if len(apart) == 1 else None  # type: ignore[type-var]


def walk_back(flow: Flow, weights: int, router: int, emptied: Collection[int] = ()) -> list[int] | None:
    """The steps from the weights of experts back to the router, through `emptied`; None where one is not understood."""
    way: list[int] = []
    here: int | None = weights
    while here is not None and here != router:
        op, makers = flow.op(here), [maker for maker in flow.makers[here] if maker is not None]
        moves = only_moves(op) or op in CARRYING | DROPOUTS | PICKING | BENDS or here in emptied
        scales = op in SCALINGS and len(flow.makers[here]) == 1 and number(flow.steps[here]) is not None
        adds = op in SUMS and len(flow.makers[here]) == 1 and is_next_to_nothing(flow, here)
        if not makers or not (moves or scales or adds or divides_by_sum(flow, here)):
            return None
        way.append(here)
        here = makers[0]
    return way if here == router else None


def divides_by_sum(flow: Flow, node: int) -> bool:
    """Whether a step divides numbers by their own sum, be it that next to nothing is added to that."""
    if "div" not in flow.op(node) or len(flow.makers[node]) != 2:
        return False
    whole, total = flow.makers[node]
    while total is not None and not adds_all(flow, total):
        is_kept = flow.op(total) in CARRYING | {"clamp", "clamp_min"} or is_next_to_nothing(flow, total)
        total = flow.makers[total][0] if is_kept and flow.makers[total] else None
    return total is not None and flow.carried_from(flow.makers[total][0]) == flow.carried_from(whole)


def adds_all(flow: Flow, node: int) -> bool:
    """Whether a step adds numbers up, or their sizes: those of weights are not below nothing (DBRX's L1 norm)."""
    step = flow.steps[node]
    return step.op == "sum" or (step.op == "norm" and step.settings.get("p") == 1)


def is_next_to_nothing(flow: Flow, node: int) -> bool:
    """Whether a step adds a number that changes nothing but what is divided by zero."""
    added = number(flow.steps[node])
    return flow.op(node) in SUMS and added is not None and abs(added) <= NEXT_TO_NOTHING


def adds_learned(flow: Flow, node: int) -> bool:
    """Whether a step adds numbers that are there before any data: one for each expert."""
    given = [record.shape for record, maker in flow.given(node) if flow.carried_from(maker) is None]
    return flow.op(node) in SUMS and len(flow.makers[node]) == 2 and any(given)


def find_groups(flow: Flow, routing: Collection[int], choice: int, router: int) -> tuple[int, int] | None:
    """Of how many groups of experts in how many is chosen, where whole groups are left out first."""
    experts, rank = flow.output(router).shape[-1], len(flow.output(choice).shape)
    for node in flow.behind(choice, within=lambda one: one in routing):
        given = flow.steps[node].inputs[0].shape if flow.op(node) == "topk" and node != choice else ()
        if len(given) == rank and given and 1 < given[-1] < experts and experts % given[-1] == 0:
            kept = flow.output(node).shape[-1]
            return (kept, given[-1]) if kept < given[-1] else None
    return None


def read_capacity(flow: Flow, routing: Collection[int]) -> int | None:
    """How many places of each sequence an expert takes at most: a choice beyond that many is multiplied by 0.

    Along the places of a sequence it is counted how many chose each expert, each place for itself (one-hot).
    """
    for node in sorted(routing):
        most = number(flow.steps[node]) if flow.op(node) in ("le", "less_equal") else None
        count = flow.carried_from(flow.makers[node][0]) if most is not None and flow.makers[node] else None
        if most is None or count is None or flow.op(count) != "cumsum" or len(flow.output(count).shape) != 3:
            continue
        chosen = flow.makers[count][0]
        is_along = {number(flow.steps[count], name) for name in ("dim", "other")} & {-2, 1}
        is_one = chosen is not None and flow.op(chosen) == "one_hot"
        kept = (one for one in flow.readers.get(node, ()) if flow.op(one) in SCALINGS and chosen in flow.makers[one])
        if is_along and is_one and next(kept, None) is not None:
            return int(most)
    return None
