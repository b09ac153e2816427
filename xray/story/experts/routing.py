"""How a router's scores become weights of experts: what bends them, and from where is chosen."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIFFERENCES, DROPOUTS, PRODUCTS, SCALINGS, SIDE_BY_SIDE, SUMS
from xray.ir.kinds import only_moves
from xray.story.anatomy.branches import Routing
from xray.story.branches.scored.caps import name_bend, read_factor
from xray.story.experts.choice import STACKED
from xray.story.experts.in_turn import read_nearness
from xray.story.recognition.between import is_linear
from xray.story.recognition.lengths import is_of_rows
from xray.story.recognition.norms import is_one_learned
from xray.story.recognition.values.value_shapes import number

BENDS = frozenset({"softmax", "sigmoid", "softplus", "sqrt", "tanh", "relu", "log_sigmoid"})
LOGARITHM = "log_sigmoid"
FILLING = frozenset({"full", "full_like"})
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
    unknown = Routing(None, None, None, None, groups, None)
    weights = find_weights(flow, nodes, routing)
    if weights is None:
        return unknown
    if (near := read_nearness(flow, weights, router)) is not None:
        return replace(unknown, bend="softmax", divided_by_sum=False, biased=False, within=near)
    way = walk_back(flow, weights, router, emptied)
    found = None if way is None else read_way(flow, way, router)
    if found is None:
        return unknown
    biased = any(adds_learned(flow, node) for node in flow.behind(choice, within=lambda one: one in routing))
    return replace(found, groups=groups, biased=biased, enters=enters(flow, nodes, routing))


def read_way(flow: Flow, way: Sequence[int], router: int) -> Routing | None:
    """What the steps from the weights of experts back to their scores tell; None where that is not understood."""
    bends = [node for node in way if flow.op(node) in BENDS or divides_in_logarithms(flow, node)]
    picks = [node for node in way if flow.op(node) in PICKING or keeps_chosen(flow, node)]
    first, last = (way.index(bends[-1]), way.index(bends[0])) if bends else (len(way), len(way))
    names = [name_bend(flow.steps[node]) if flow.op(node) in BENDS else "softmax" for node in bends]
    divided = any(divides_by_sum(flow, node) for node in way)
    if names == ["softmax", LOGARITHM]:  # the softmax of logarithms is what these are of, divided by its sum
        names, divided = ["sigmoid"], True
    learned = [way.index(node) for node in way if is_times_learned(flow, node)]
    if multiply(flow, way[last:first]) is not None or any(place > last for place in learned):
        return None  # a number between two bends, as a cap by tanh has (Laguna)
    joined = [node for node in way if flow.op(node) in SIDE_BY_SIDE]
    is_shared = divided and bool(picks) and all(joins_scores(flow, node, router) for node in joined)
    if joined and not (is_shared and max(joined) < min(bends, default=0)):
        return None
    if names.count("softmax") > 1:
        return None
    is_softmax = bool(picks) and names == ["softmax"]
    return Routing(
        bend=" of ".join(names) or "none",
        over=None if not is_softmax else "chosen" if max(bends) > min(picks) else "all",
        divided_by_sum=divided,
        factor=multiply(flow, way[:last]),
        groups=None,
        biased=None,
        scaled=multiply(flow, way[first:]),
        with_shared=sum(count_beside(flow, node) for node in joined) or None,
        learned=bool(learned),
    )


def enters(flow: Flow, nodes: Collection[int], routing: Collection[int]) -> bool:
    """Whether what goes into experts is multiplied by their weights, and nothing that they give is (Llama 4)."""
    heavy = [node for node in nodes if flow.op(node) in STACKED or is_linear(flow, node)]
    weighing = [
        node
        for node in nodes
        if node not in routing and flow.op(node) in SCALINGS and {*flow.makers[node]}.intersection(routing)
    ]
    behind = (flow.behind(node, within=lambda one: one in nodes and one not in routing) for node in weighing)
    return bool(weighing) and bool(heavy) and all({*one}.isdisjoint(heavy) for one in behind)


def is_times_learned(flow: Flow, node: int) -> bool:
    """Whether a step multiplies by one learned number."""
    ways = range(len(flow.makers[node])) if flow.op(node) in SCALINGS else range(0)
    return len(ways) == 2 and any(is_one_learned(flow, node, number) for number in ways)


def divides_in_logarithms(flow: Flow, node: int) -> bool:
    """Whether a step gives exp of numbers less the logarithm of the sum of their exp: a softmax, written out."""
    taken = flow.carried_from(flow.makers[node][0]) if flow.op(node) == "exp" and flow.makers[node] else None
    if taken is None or flow.op(taken) not in DIFFERENCES or len(flow.makers[taken]) != 2:
        return False
    whole, total = map(flow.carried_from, flow.makers[taken])
    return total is not None and flow.op(total) == "logsumexp" and flow.carried_from(flow.makers[total][0]) == whole


def keeps_chosen(flow: Flow, node: int) -> bool:
    """Whether a step puts scores that were chosen where they were, among others of minus infinity (Llama 4)."""
    if flow.op(node) not in ("scatter", "scatter_") or len(flow.makers[node]) != 3:
        return False
    empty, names, kept = map(flow.carried_from, flow.makers[node])
    filled = None if empty is None or flow.op(empty) not in FILLING else number(flow.steps[empty])
    return filled == float("-inf") and names == kept and kept is not None and flow.op(kept) == "topk"


def joins_scores(flow: Flow, node: int, router: int) -> bool:
    """Whether a step puts scores of a router, as they are, beside those of the chosen."""
    return all(flow.carried_from(maker) == router for maker in flow.makers[node][1:])


def count_beside(flow: Flow, node: int) -> int:
    """How many scores stand beside those of the chosen."""
    return flow.output(node).shape[-1] - flow.steps[node].inputs[0].shape[-1]


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
        way.append(here)
        if here not in emptied and not is_understood(flow, here):
            return None
        node = flow.carried_from(flow.makers[here][0]) if divides_in_logarithms(flow, here) else here
        makers = [] if node is None else [maker for maker in flow.makers[node] if maker is not None]
        here = None if not makers else makers[-1] if keeps_chosen(flow, way[-1]) else makers[0]
    return way if here == router else None


def is_understood(flow: Flow, node: int) -> bool:
    """Whether a step on the way of weights moves, picks, bends or scales them, or adds next to nothing."""
    op = flow.op(node)
    if op == "softmax" and not is_of_rows(flow, node):
        return False
    if only_moves(op) or op in CARRYING | DROPOUTS | PICKING | BENDS:
        return True
    alone = len(flow.makers[node]) == 1
    scales = op in SCALINGS and alone and number(flow.steps[node]) is not None
    adds = op in SUMS and alone and is_next_to_nothing(flow, node)
    divides = divides_by_sum(flow, node) or divides_in_logarithms(flow, node)
    return scales or adds or divides or is_times_learned(flow, node) or keeps_chosen(flow, node)


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
    """Whether a step adds rows up, or their sizes: those of weights are not below nothing (DBRX's L1 norm)."""
    step = flow.steps[node]
    return is_of_rows(flow, node) and (step.op == "sum" or (step.op == "norm" and step.settings.get("p") == 1))


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


def read_slots(flow: Flow, nodes: Collection[int], router: int, experts: int) -> int | None:
    """The same where rows are laid out for each expert, as many of each sequence as it takes, by a product (ST-MoE).

    Which row a place becomes is how many before it chose the expert, which is compared with as many as there are.
    """
    for node in sorted(nodes):
        most = number(flow.steps[node]) if flow.op(node) in ("lt", "less") else None
        counted = set(flow.behind(node, within=lambda one: one in nodes)) if most is not None else set[int]()
        if most is None or router not in counted or not any(counts_along(flow, one, experts) for one in counted):
            continue
        led = flow.ahead(node, within=lambda one: one in nodes)
        shapes = [flow.output(one).shape for one in led if flow.op(one) in PRODUCTS]
        if any(len(shape) == 4 and shape[1:3] == (experts, most) for shape in shapes):
            return int(most)
    return None


def counts_along(flow: Flow, node: int, experts: int) -> bool:
    """Whether a step counts along the places of each sequence how many chose each expert."""
    if flow.op(node) != "cumsum":
        return False
    shape, dims = flow.output(node).shape, {number(flow.steps[node], name) for name in ("dim", "other")}
    return shape[-1:] == (experts,) and not dims.isdisjoint({-2, len(shape) - 2})
