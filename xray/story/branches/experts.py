"""What experts are: how many, which of them a router chooses, and what every place goes through beside them."""

from collections import Counter
from collections.abc import Collection, Mapping
from math import prod

from xray.ir.flow.dataflow import SHAPED_ALIKE, Flow
from xray.ir.flow.operation_kinds import CARRYING, LOOKUPS, SCALINGS, SUMS
from xray.ir.flow.projections import is_product
from xray.ir.records import TensorRecord
from xray.story.anatomy.tree import Experts, FeedForward
from xray.story.branches.feed_forward import describe_feed_forward, is_bend, name_activation, steps_behind
from xray.story.branches.routing import read_routing
from xray.story.recognition.between import Region, is_linear, projections_in, width_out

STACKED = frozenset({"_grouped_mm", "grouped_mm", "_scaled_grouped_mm", "bmm", "matmul", "einsum", "baddbmm"})
"""Products with the weights of all experts at once."""


def describe_experts(flow: Flow, region: Region, nodes: Collection[int]) -> Experts | None:
    """The facts of a router with its experts among steps; None where nothing is chosen."""
    choice = find_choice(flow, nodes)
    if choice is None:
        return None
    chosen_at, router = choice
    experts = count_experts(flow, nodes, chosen_at, router)
    found = describe_each(flow, nodes, experts, router)
    return Experts(
        experts=experts,
        chosen=None if may_choose_none(flow, chosen_at, experts) else count_chosen(flow, chosen_at),
        shared=len(list_shared(flow, nodes, router)) or (None if list_stacks(flow, nodes) - {experts} else 0),
        d_ff=None if found is None else found.d_ff,
        activation=None if found is None else found.activation,
        gated=None if found is None else found.gated,
        chosen_by="table" if flow.op(chosen_at) == "gather" else "router",
        routing=read_routing(flow, nodes, list_routing(flow, nodes, router), chosen_at, router)
        if count_routers(flow, nodes) <= 1
        else None,
    )


def count_experts(flow: Flow, nodes: Collection[int], choice: int, router: int) -> int:
    """How many experts a router scores; no more than it is chosen from, where there are weights for as many.

    Where there are weights for one less, the last score is for none of them (ZAYA).
    """
    scored = flow.steps[choice].inputs[0].shape[-1:]
    stacks, width = list_stacks(flow, nodes), width_out(flow, router)
    if scored and scored[0] in stacks:
        return scored[0]
    return width - 1 if stacks == {width - 1} else width


def may_choose_none(flow: Flow, choice: int, experts: int) -> bool:
    """Whether there is one more to choose from than there are experts."""
    return flow.steps[choice].inputs[0].shape[-1:] == (experts + 1,)


def list_stacks(flow: Flow, nodes: Collection[int]) -> set[int]:
    """How many weights products have at once, one behind the other: as many as there are experts of a kind."""
    return {
        record.shape[0]
        for node in nodes
        if flow.op(node) in STACKED
        for record in flow.steps[node].inputs[1:2]
        if len(record.shape) == 3
    }


def list_held(flow: Flow, nodes: Collection[int]) -> set[int]:
    """How many matrices each learned tensor holds that steps read, one behind the other."""
    records = (record for node in nodes for record in flow.steps[node].inputs)
    return {record.shape[0] for record in records if record.role == "parameter" and len(record.shape) >= 3}


def count_chosen(flow: Flow, choice: int) -> int:
    """How many experts are chosen for a place: as many as a step picks, or as are put side by side."""
    if flow.op(choice) in ("topk", "gather"):
        return flow.output(choice).shape[-1]
    todo, seen = [choice], {choice}
    widest = 1
    while todo:
        for reader in flow.readers.get(todo.pop(), ()):
            joins = flow.op(reader) in ("cat", "concat", "stack")
            if reader not in seen and (joins or flow.op(reader) in CARRYING):
                seen.add(reader)
                todo.append(reader)
                widest = max(widest, flow.output(reader).shape[-1] if joins else 1)
    return widest


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


def find_choice(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """The step that chooses experts, and the linear layer whose scores it reads: the router."""
    choices = [
        node
        for node in sorted(nodes)
        if flow.op(node) in ("topk", "argmax", "sort", "max")
        and flow.is_leaf(node)
        and len(flow.steps[node].inputs) == 1  # of two it takes the larger, number by number (xLSTM)
    ]
    found: tuple[int, int] | None = None
    for choice in choices:
        if flow.op(choice) in ("sort", "max") and found is not None:
            continue
        router = router_behind(flow, choice, nodes)
        if router is None:
            continue
        shape = flow.output(choice).shape
        scores = width_out(flow, router)
        if flow.op(choice) == "topk" and shape and shape[-1] >= scores and scores not in list_held(flow, nodes):
            continue
        if flow.op(choice) == "topk" and not chooses_from(
            flow, choice, {width_out(flow, router), *list_stacks(flow, nodes)}
        ):
            continue
        if flow.op(choice) == "topk" or found is None:
            found = (choice, router)
    return found if found is not None and flow.op(found[0]) in ("topk", "argmax", "max") else find_listed(flow, nodes)


def find_listed(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """The step that picks the scores of experts that a table names for each word, and the router that gives them.

    (hash layers, Roller et al. 2021)
    """
    for node in sorted(nodes):
        if flow.op(node) != "gather" or len(flow.makers[node]) != 2 or not flow.is_leaf(node):
            continue
        router = router_behind(flow, node, nodes)
        names = flow.makers[node][1]
        if router is None or names is None or not is_listed(flow, names):
            continue
        scored = flow.steps[node].inputs[0].shape[-1:]
        if scored == (width_out(flow, router),) and scored[0] in list_stacks(flow, nodes):
            return node, router
    return None


def is_listed(flow: Flow, names: int) -> bool:
    """Whether whole numbers are rows of a table that is there before any data, picked by other whole numbers."""
    if flow.op(names) not in LOOKUPS | {"index"} or len(flow.makers[names]) != 2:
        return False
    (table, maker), (ids, _) = flow.given(names)
    return maker is None and len(table.shape) == 2 and "int" in table.dtype and "int" in ids.dtype


def chooses_from(flow: Flow, choice: int, counts: Collection[int]) -> bool:
    """Whether a step chooses among as many scores as a router gives or as there are experts, be they in groups.

    Else it chooses places.
    """
    shape = next((record.shape for record in flow.steps[choice].inputs), ())
    is_last = flow.steps[choice].settings.get("dim", -1) in (-1, len(shape) - 1)
    return is_last and not {*shape[-1:], prod(shape[-2:])}.isdisjoint(counts)


def router_behind(flow: Flow, choice: int, nodes: Collection[int]) -> int | None:
    """The linear layer that scored what a step chooses from."""
    seen: set[int] = set()
    todo = [choice]
    while todo and len(seen) < 60:
        here = todo.pop()
        if here in seen or here not in nodes:
            continue
        seen.add(here)
        if is_linear(flow, here):
            return here
        if is_product(flow, here):
            continue
        todo += [maker for maker in flow.makers[here] if maker is not None]
    return None


def describe_each(flow: Flow, nodes: Collection[int], experts: int, router: int) -> FeedForward | None:
    """What one expert is: read off the stacked products, or off the linear layers behind the router."""
    products = [
        node
        for node in sorted(nodes)
        if flow.is_leaf(node)
        and any(len(record.shape) == 3 and record.shape[0] == experts for record in flow.steps[node].inputs)
        and flow.op(node) in STACKED
    ]
    if len(products) >= 2:
        last = products[-1]
        d_ff = flow.steps[last].inputs[0].shape[-1]
        between = [node for node in sorted(nodes) if products[0] < node < last]
        gates = [node for node in between if is_product_of_two(flow, node)]
        gated = width_out(flow, products[0]) == 2 * d_ff or len(products) == 3
        stop = gates[-1] if gates and gated else last
        return FeedForward(d_ff, name_activation(flow, [n for n in between if n < stop], products[:1]), gated)
    own = [node for node in projections_in(flow, nodes) if node != router]
    for group in group_by_parent(flow, own):
        inner = {node for node in nodes if min(group) <= node <= max(group)}
        found = describe_feed_forward(flow, Region(None, max(group), frozenset(inner), frozenset()), inner)
        if found is not None:
            return found
    return None


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
    """The feed-forwards that every place goes through beside the chosen ones: added, and not worked out of a choice."""
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
        found += [steps_behind(flow, maker, nodes) for maker in beside]
    return [part for part in found if is_feed_forward(flow, part)]


def list_routing(flow: Flow, nodes: Collection[int], router: int) -> set[int]:
    """The steps that work on the scores of a router and on nothing else that data made: how experts are chosen."""
    found = {router}
    for node in sorted(nodes):
        made = {maker for record, maker in flow.given(node) if record.role != "parameter" and maker is not None}
        worked = {maker for maker in made if not is_given(flow, maker)}
        if worked and found >= worked:
            found.add(node)
    return found - {router}


def is_given(flow: Flow, place: int) -> bool:
    """Whether what a step makes is there before any data: made of nothing but a shape, or moved at most."""
    return flow.op(place) in SHAPED_ALIKE or not flow.steps[place].inputs or flow.carried_from(place) is None


def is_feed_forward(flow: Flow, nodes: Collection[int]) -> bool:
    return len(projections_in(flow, nodes)) >= 2 and any(is_bend(flow, node) for node in nodes)


def count_idle(flow: Flow, region: Region, experts: Experts) -> int | None:
    """How many parameters a place passes by: those of the experts that are not chosen for it. None if not known."""
    nodes = region.inner
    choice = find_choice(flow, nodes)
    if choice is None or not experts.experts or not experts.chosen or count_routers(flow, nodes) > 1:
        return None
    idle = experts.experts - experts.chosen
    stacked = {
        (node, number): prod(record.shape[1:])
        for node in nodes | region.beside
        if node != choice[1]
        for number, (record, maker) in enumerate(flow.given(node))
        if maker is None and record.role == "parameter" and is_stack(record, experts.experts)
    }
    if stacked:
        return count_idle_of_stacks(flow, stacked, idle, experts.experts, choice[1])
    groups = group_by_parent(flow, [node for node in projections_in(flow, nodes) if node != choice[1]])
    blocks = [flow.steps[flow.places[flow.steps[group[0]].parent or ""]] for group in groups]
    own = {block.params for block in blocks}
    if len(own) != 1:
        return None
    each = own.pop()
    if len({block.path for block in blocks}) > 1 or len(blocks) == 1:
        return idle * each
    return None if each % experts.experts else idle * (each // experts.experts)  # one block holds all of them (DBRX)


def holds_choice(flow: Flow, region: Region) -> bool:
    """Whether some of as many weights as are chosen from work in a region, whatever it is else (JetMoe's attention)."""
    nodes = region.inner | region.beside
    chosen = {flow.steps[node].inputs[0].shape[-1] for node in nodes if flow.op(node) == "topk"}
    stacks = (record.shape for node in nodes for record in flow.steps[node].inputs if record.role == "parameter")
    return any(len(shape) >= 3 and shape[0] in chosen for shape in stacks)


def count_routers(flow: Flow, nodes: Collection[int]) -> int:
    """How many linear layers score experts: words and images may each have their own (ERNIE 4.5 VL)."""
    routers = {
        router
        for node in nodes
        if flow.op(node) == "topk"
        and (router := router_behind(flow, node, nodes)) is not None
        and chooses_from(flow, node, {width_out(flow, router)})
    }
    return len({flow.steps[router].path for router in routers})


def count_idle_of_stacks(
    flow: Flow, stacked: Mapping[tuple[int, int], int], idle: int, experts: int, router: int
) -> int | None:
    """The same where stacks hold all experts; one that is read anew for each expert is counted once (DBRX)."""
    each = sum(stacked.values())
    holders = {holder for node, _ in stacked if (holder := block_of(flow, node)) is not None}
    held = sum(flow.steps[holder].params for holder in holders)
    if not held or each * experts <= held:
        return idle * each
    return None if held % experts or block_of(flow, router) in holders else idle * (held // experts)


def block_of(flow: Flow, node: int) -> int | None:
    """The block that a step runs in."""
    return flow.places.get(flow.steps[node].parent or "")


def is_stack(record: TensorRecord, experts: int) -> bool:
    """Whether a tensor holds something for each expert."""
    return len(record.shape) >= 2 and record.shape[0] == experts
