"""What experts are: how many, which of them a router chooses, and what every place goes through beside them."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SCALINGS, SUMS
from xray.story.anatomy.branches import Experts, FeedForward
from xray.story.branches.feed_forward import describe_feed_forward, is_bend, name_activation, steps_behind, with_held
from xray.story.experts.choice import (
    STACKED,
    count_chosen,
    find_choice,
    list_held,
    list_held_shapes,
    list_products,
    list_routers,
    list_routing,
    list_stacks,
)
from xray.story.experts.chosen_heads import find_gathering, find_stack
from xray.story.experts.earlier_router import find_handed_on
from xray.story.experts.neighbours import find_mixed_behind, mixes_back
from xray.story.experts.routing import counts_along, read_capacity, read_routing, read_slots
from xray.story.experts.sets import find_picked, list_sets
from xray.story.experts.skipped import list_emptied, may_choose_none
from xray.story.recognition.between import Region, list_reading_data, projections_in, weights_of, width_out

MOST_OF_ONE = 3
"""Gate, up and down: a block with more layers holds those of several experts."""
ADDING_ROWS, PICKS = frozenset({"index_add", "index_add_"}), frozenset({"index", "index_select", "select"})


def describe_experts(flow: Flow, region: Region, nodes: Collection[int]) -> Experts | None:
    """The facts of a router with its experts among steps; None where nothing is chosen."""
    each = [describe_experts(flow, one, one.inner) for one in list_sets(flow, region)]
    sets = [one for one in each if one is not None]
    if len(sets) > 1:
        return join_sets(flow, sets, list_shared(flow, nodes, list_routers(flow, nodes)[0]))
    choice = find_choice(flow, nodes)
    if choice is None or scores_fewer_rows(flow, region, choice[1]):
        return None
    chosen_at, router = choice
    experts = count_experts(flow, nodes, chosen_at, router)
    shared = list_shared(flow, nodes, router)
    routing = list_routing(flow, nodes, router)
    working = {*nodes}.difference(routing, steps_behind(flow, router, nodes), *shared)
    places = prod(flow.output(router).shape[:-1])
    is_stacked = experts in list_stacks(flow, nodes) | list_held(flow, nodes)
    if not is_stacked and not has_weights_of_several(flow, working, places, routing):
        return None
    found = describe_each(flow, nodes, experts, projections_in(flow, working))
    mixed = find_mixed_behind(flow, region)
    emptied = list_emptied(flow, routing, chosen_at, experts)
    slots = read_slots(flow, nodes, router, experts)
    capacity = read_capacity(flow, routing) or slots
    chosen, handing_on = count_chosen(flow, chosen_at), count_handing_on(flow, nodes, experts)
    own = {*nodes}.difference(*shared)
    is_dropped = capacity is None and any(counts_along(flow, node, experts) for node in routing)
    is_dropped |= slots is None and deals_otherwise(flow, own, places, chosen, handing_on, capacity)
    is_unknown = is_dropped or may_choose_none(flow, chosen_at, experts)
    blocks = {frozenset(weights_of(flow, [node])) for node in list_backs(flow, own)}
    found = None if is_dropped and not is_stacked and len(blocks) < experts else found  # others may do something else
    return Experts(
        experts=experts,
        chosen=None if is_unknown else chosen,
        shared=count_shared(flow, shared) or (None if list_stacks(flow, nodes) - {experts} else 0),
        d_ff=None if found is None else found.d_ff,
        activation=None if found is None else found.activation,
        gated=None if found is None else found.gated,
        chosen_by="table" if flow.op(chosen_at) == "gather" else "router",
        routing=read_routing(flow, nodes, routing, chosen_at, router, emptied)
        if len(list_routers(flow, nodes)) <= 1
        else None,
        neighbours=mixed is not None,
        looks_back=mixes_back(flow, mixed),
        handing_on=handing_on,
        capacity=capacity,
        shared_d_ff=measure_shared(flow, shared),
        chosen_or_none=chosen if emptied else None,
        earlier_router=find_handed_on(flow, nodes, router) is not None,
        on_all=works_on_all(flow, nodes, experts, router, chosen),
        held_gate=() if found is None else found.held_gate,
        held_bent=() if found is None else found.held_bent,
        held_up=() if found is None else found.held_up,
    )


def scores_fewer_rows(flow: Flow, region: Region, router: int) -> bool:
    """Whether a router gives one score for many places, and none for each of those that a branch gives."""
    shape, rows = flow.output(region.end).shape, prod(flow.output(router).shape[:-1])
    return not find_picked(flow, region, router) and rows < prod(shape) // max(shape[1:], default=1)


def deals_otherwise(
    flow: Flow, own: Collection[int], places: int, chosen: int, handing_on: int | None, capacity: int | None
) -> bool:
    """Whether layers of single experts take more rows, or fewer, than would be theirs by the choice (NLLB).

    Each place goes through as many as were chosen, through fewer where experts leave out those beyond a number, or
    through all, once each; known where no expert only hands rows on.
    """
    rows = [prod(flow.output(node).shape[:-1]) for node in list_backs(flow, own)]
    is_as_chosen = max(rows, default=0) <= places and sum(rows) == places * chosen
    is_fewer = capacity is not None and max(rows, default=0) <= places and sum(rows) < places * chosen
    return len(rows) > 1 and not handing_on and {*rows} != {places} and not is_as_chosen and not is_fewer


def works_on_all(flow: Flow, nodes: Collection[int], experts: int, router: int, chosen: int) -> bool:
    """Whether products with the weights of each expert have as many rows as the router scores.

    Of single layers that proves nothing where all experts are chosen (Step 3.7).
    """
    places = prod(flow.output(router).shape[:-1])
    layers = [prod(flow.output(node).shape[:-1]) for node in projections_in(flow, nodes)]
    if chosen < experts and len(layers) > 2 * experts and {*layers} == {places}:
        return True
    products = [flow.steps[node].inputs[:2] for node in nodes if flow.op(node) in STACKED]
    held = [(rows.shape, weights.shape) for rows, weights in products if weights.shape[:1] == (experts,)]
    return bool(held) and all(len(rows) == 3 and rows[:2] == (experts, places) for rows, _ in held)


def join_sets(flow: Flow, sets: Sequence[Experts], shared: Sequence[Collection[int]]) -> Experts:
    """Several sets of experts as one branch: the first of them, with the others behind it."""
    first, *others = sets
    behind = join_sets(flow, others, ()) if others else None
    return replace(first, shared=count_shared(flow, shared), shared_d_ff=measure_shared(flow, shared), others=behind)


def count_experts(flow: Flow, nodes: Collection[int], choice: int, router: int) -> int:
    """How many experts a router scores; no more than it is chosen from, where there are weights for as many.

    Where there are weights for one less, the last score is for none of them (ZAYA).
    """
    scored = flow.steps[choice].inputs[0].shape[-1:]
    stacks, width = list_stacks(flow, nodes), width_out(flow, router)
    if scored and scored[0] in stacks:
        return scored[0]
    return width - 1 if stacks == {width - 1} else width


def count_handing_on(flow: Flow, nodes: Collection[int], experts: int) -> int | None:
    """How many experts only hand rows on: some do, and there are weights for no more than the others."""
    adds = [node for node in nodes if flow.op(node) in ADDING_ROWS]
    held = min(list_read_apart(flow, nodes), default=experts)
    picked = sum(is_picked(flow, add, nodes) for add in adds)
    return experts - held if picked and len(adds) - picked <= held < experts else None


def list_read_apart(flow: Flow, nodes: Collection[int]) -> set[int]:
    """How many matrices the learned tensors hold of which linear layers read one each."""
    read = {maker for node in projections_in(flow, nodes) for maker in flow.makers[node]}
    picks = {flow.carried_from(maker, CARRYING - PICKS) for maker in read} - {None, *nodes}
    held = [flow.steps[pick].inputs[0] for pick in picks if pick is not None and flow.op(pick) in PICKS]
    return {one.shape[0] for one in held if one.role == "parameter" and len(one.shape) == len(("expert", "out", "in"))}


def is_picked(flow: Flow, add: int, nodes: Collection[int]) -> bool:
    """Whether rows that a step adds at some places were picked before any linear layer, and at most scaled since."""
    here = flow.makers[add][-1]
    while here is not None and flow.op(here) in (CARRYING | SCALINGS) - PICKS:
        shape = flow.output(here).shape
        ways = [maker for record, maker in flow.given(here) if record.shape == shape]
        here = ways[0] if len(ways) == 1 else None
    if here is None or flow.op(here) not in PICKS:
        return False
    before = flow.behind(flow.makers[here][0], within=nodes.__contains__)
    return set(projections_in(flow, nodes)).isdisjoint(before)


def count_places(flow: Flow, nodes: Collection[int]) -> tuple[int, ...]:
    """How many places chose each expert, by the recorded choice; empty where its values were not kept."""
    choice = find_choice(flow, nodes)
    if choice is None or flow.op(choice[0]) == "gather":
        return ()
    step, experts = flow.steps[choice[0]], count_experts(flow, nodes, *choice)
    again = [node for node in nodes if flow.op(node) == step.op and flow.is_leaf(node)]
    if (step.op != "topk" and len(again) > 1) or step.inputs[0].shape[-1:] != (experts,):
        return ()
    kept = next((one.preview for one in step.outputs if one.preview and one.preview.shape == one.shape), None)
    counted = Counter(() if kept is None else kept.values)
    return tuple(counted[number] for number in range(experts)) if counted else ()


def has_weights_of_several(flow: Flow, nodes: Collection[int], places: int, routing: Collection[int]) -> bool:
    """Whether steps multiply by weights that not all places share: else it is no experts that are chosen.

    They are layers of several blocks, or several of one, or those of one block that works on some of the places alone,
    or on those that `routing` picks, be they all: the one expert which was chosen.
    """
    layers = projections_in(flow, nodes)
    names = {node: frozenset(weights_of(flow, [node])) for node in layers}
    groups = group_by_parent(flow, layers)
    if any(find_stack(flow, node) for node in layers):
        return True
    if not groups:
        return len({*names.values()}) > 1
    first = {names[node] for node in groups[0]}
    rows = prod(flow.output(groups[0][0]).shape[:-1])
    picks = (node for node in flow.behind(groups[0][0], within=nodes.__contains__) if flow.op(node) in PICKS)
    is_one = len(groups) == 1 and (rows < places or any({*routing}.intersection(flow.makers[one][1:]) for one in picks))
    return len(first) > MOST_OF_ONE or {*names.values()} > first or is_one


def describe_each(flow: Flow, nodes: Collection[int], experts: int, layers: Collection[int]) -> FeedForward | None:
    """What one expert is: read off the stacked products, or off their linear layers; None where some are others."""
    products = list_products(flow, nodes, experts)
    if len(products) >= 2:
        last = products[-1]
        d_ff = flow.steps[last].inputs[0].shape[-1]
        between = [node for node in sorted(nodes) if products[0] < node < last]
        gates = [node for node in between if is_product_of_two(flow, node)]
        gated = width_out(flow, products[0]) == 2 * d_ff or len(products) == 3
        stop = gates[-1] if gates and gated else last
        activation = name_activation(flow, [node for node in between if node < stop], products[:1])
        return with_held(flow, FeedForward(d_ff, activation, gated), gates, between)
    apart = describe_gathered(flow, nodes, experts)
    if apart is not None:
        return apart
    each = [describe_group(flow, group, nodes) for group in group_by_parent(flow, layers)]
    if not each or each[0] is None or any(one is None or replace(one, d_ff=each[0].d_ff) != each[0] for one in each):
        return None
    return each[0] if len({one.d_ff for one in each if one is not None}) == 1 else replace(each[0], d_ff=None)


def describe_group(flow: Flow, group: Collection[int], nodes: Collection[int]) -> FeedForward | None:
    """The feed-forward that linear layers of one block are: the last of those that stand in it one after the other."""
    together = steps_behind(flow, max(group), nodes).intersection(group)
    inner = {node for node in nodes if min(together) <= node <= max(group)}
    found = describe_feed_forward(flow, Region(None, max(group), frozenset(inner), frozenset()), inner)
    return found if found is not None and len(together) in (2, 2 + bool(found.gated)) else None


def describe_gathered(flow: Flow, nodes: Collection[int], experts: int) -> FeedForward | None:
    """The same of experts that each multiply rows of their own by their part of one stack of weights (JetMoe)."""
    held = {node: stack for node in sorted(nodes) if (stack := find_stack(flow, node)) is not None}
    gathered = (find_gathering(flow, node) for node, stack in held.items() if stack.shape[0] == experts)
    together = list(dict.fromkeys(gathered))
    if len(together) != 2 or together[0] is None or together[1] is None:
        return None
    first, last = together[0], min(node for node in held if node > together[0])
    d_ff = flow.steps[last].inputs[0].shape[-1]
    between = [node for node in sorted(nodes) if first < node < last]
    gated = flow.output(first).shape[-1] == 2 * d_ff
    gates = [node for node in between if is_product_of_two(flow, node)]
    stop = gates[-1] if gates and gated else last
    activation = name_activation(flow, [node for node in between if node < stop], [first])
    return with_held(flow, FeedForward(d_ff, activation, gated), gates, between)


def is_product_of_two(flow: Flow, node: int) -> bool:
    """Whether a step multiplies two tensors of one shape."""
    step = flow.steps[node]
    return step.op in SCALINGS and len(step.inputs) == 2 and step.inputs[0].shape == step.inputs[1].shape


def group_by_parent(flow: Flow, nodes: Collection[int]) -> list[list[int]]:
    """Linear layers by the block that holds them."""
    groups: dict[str | None, list[int]] = {}
    for node in nodes:
        groups.setdefault(flow.steps[node].parent, []).append(node)
    return [group for group in groups.values() if len(group) > 1]


def list_shared(flow: Flow, nodes: Collection[int], router: int) -> list[set[int]]:
    """The feed-forwards that every place goes through beside the chosen ones: added, and not worked out of a choice.

    What the router reads too, a norm, is no part of them. The router may weigh what they make (Inkling).
    """
    weighed = find_weighed(flow, nodes, router)
    return [weighed] if weighed else list_unweighed(flow, nodes, router)


def list_unweighed(flow: Flow, nodes: Collection[int], router: int) -> list[set[int]]:
    """The feed-forwards that every place goes through as they are, or times a gate of their own."""
    before = steps_behind(flow, router, nodes)
    reached: set[int] = {router}
    for node in sorted(nodes):
        if any(maker in reached for maker in flow.makers[node] if maker is not None):
            reached.add(node)
    found: list[set[int]] = []
    for node in sorted(nodes):
        makers = flow.makers[node]
        if flow.op(node) not in SUMS or len(makers) != 2 or not any(maker in reached for maker in makers):
            continue
        beside = [maker for maker in makers if maker is not None and maker in nodes and maker not in reached]
        found += [steps_behind(flow, maker, nodes) - before for maker in beside]
    return [part for part in found if is_feed_forward(flow, part)]


def find_weighed(flow: Flow, nodes: Collection[int], router: int) -> set[int]:
    """The steps of experts that all places go through, each times its score: added, with weights for fewer at once."""
    choice = find_choice(flow, nodes)
    if choice is None or choice[1] != router:
        return set()
    experts, reading = count_experts(flow, nodes, *choice), list_reading_data(flow)
    products = [node for node in nodes if flow.op(node) in STACKED and flow.is_leaf(node)]
    held = {node: next((shape[0] for shape in list_held_shapes(flow, node, reading)), 0) for node in products}
    few = {node for node in products if 0 < held[node] < experts}
    chosen = {node for node in products if held[node] == experts}
    apart = list_routing(flow, nodes, router) | steps_behind(flow, router, nodes)
    for node in sorted(nodes):
        makers = [maker for maker in flow.makers[node] if maker is not None and maker in nodes]
        sides = [steps_behind(flow, maker, nodes) for maker in makers] if flow.op(node) in SUMS else []
        own = [side for side in sides if few & side and not chosen & side]
        if len(sides) == 2 and len(own) == 1 and len(few & own[0]) > 1 and any(chosen & side for side in sides):
            return own[0] - apart
    return set()


def count_shared(flow: Flow, parts: Sequence[Collection[int]]) -> int:
    """How many experts every place goes through; those of one stack of weights stand one behind the other in it."""
    return sum(max(list_stacks(flow, part), default=0) or max(len(list_backs(flow, part)), 1) for part in parts)


def list_backs(flow: Flow, part: Collection[int]) -> list[int]:
    """The linear layers that bring rows back to the stream's width, behind which no other one stands."""
    layers, width = projections_in(flow, part), flow.output(max(part)).shape[-1]
    led = set(flow.behind(*(maker for one in layers for maker in flow.makers[one]), within=part.__contains__))
    return [one for one in layers if width_out(flow, one) == width and one not in led]


def measure_shared(flow: Flow, parts: Sequence[Collection[int]]) -> int | None:
    """How wide the experts are inside that every place goes through; None where they differ, or there are none."""
    backs = [find_back(flow, part) for part in parts]
    widths = {None if back is None else flow.steps[back].inputs[0].shape[-1] for back in backs}
    return widths.pop() if len(widths) == 1 else None


def find_back(flow: Flow, part: Collection[int]) -> int | None:
    """The product by which an expert's rows come back to the stream's width: no gate, which is one number each."""
    width = flow.output(max(part)).shape[-1]
    stacked = [node for node in part if flow.op(node) in STACKED and flow.is_leaf(node)]
    products = (*projections_in(flow, part), *stacked)
    return max((one for one in products if flow.output(one).shape[-1] == width), default=None)


def is_feed_forward(flow: Flow, nodes: Collection[int]) -> bool:
    return len(projections_in(flow, nodes)) >= 2 and any(is_bend(flow, node) for node in nodes)
