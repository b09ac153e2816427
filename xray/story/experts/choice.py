"""Which step chooses experts, which layer scores them, and what works on these scores alone."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LOOKUPS, SIDE_BY_SIDE
from xray.ir.flow.projections import is_product
from xray.ir.turns import TURNED, read_turn
from xray.story.recognition.between import is_linear, list_reading_data, width_out
from xray.story.recognition.lengths import is_of_rows, takes_highest

STACKED = frozenset({"_grouped_mm", "grouped_mm", "_scaled_grouped_mm", "bmm", "matmul", "einsum", "baddbmm"})
"""Products with the weights of all experts at once."""


def find_choice(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """The step that chooses experts, and the linear layer whose scores it reads: the router."""
    choices = [
        node
        for node in sorted(nodes)
        if flow.op(node) in ("topk", "argmax", "sort", "max")
        and flow.is_leaf(node)
        and is_of_rows(flow, node)
        and takes_highest(flow, node)
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


def count_chosen(flow: Flow, choice: int) -> int:
    """How many experts are chosen for a place: as many as a step picks, or as are put side by side."""
    if flow.op(choice) in ("topk", "gather"):
        return flow.output(choice).shape[-1]
    joins = SIDE_BY_SIDE | {"stack"}
    moved = flow.ahead(*flow.readers.get(choice, ()), within=lambda one: flow.op(one) in CARRYING | joins)
    return max((flow.output(one).shape[-1] for one in moved if flow.op(one) in joins), default=1)


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
    return is_of_rows(flow, choice) and not {*shape[-1:], prod(shape[-2:])}.isdisjoint(counts)


def router_behind(flow: Flow, choice: int, nodes: Collection[int]) -> int | None:
    """The linear layer that scored what a step chooses from, if these scores still lie last: else places are chosen.

    Of several it is the one whose scores are bent by the fewest steps: others say how much chance counts.
    """
    scorers = scorers_behind(flow, choice, nodes)
    way = flow.behind(choice, within=nodes.__contains__, ends=scorers[:1].__contains__)
    turns = (read_turn(flow.steps[node]) for node in way if flow.op(node) in TURNED)
    return scorers[0] if scorers and all(turn is None or turn[-1] == len(turn) - 1 for turn in turns) else None


def scorers_behind(flow: Flow, choice: int, nodes: Collection[int]) -> list[int]:
    """The linear layers that scored what a step chooses from, those first with the fewest steps in between."""
    ends = flow.behind(
        choice, within=nodes.__contains__, ends=lambda node: is_linear(flow, node) or is_product(flow, node)
    )
    return [node for node in ends if is_linear(flow, node)]


def list_routers(flow: Flow, nodes: Collection[int]) -> list[int]:
    """The linear layers that score experts, in order: words and images may each have their own (ERNIE 4.5 VL)."""
    routers = {
        router
        for node in nodes
        if flow.op(node) == "topk"
        and (router := router_behind(flow, node, nodes)) is not None
        and chooses_from(flow, node, {width_out(flow, router)})
    }
    return list({flow.steps[router].path: router for router in sorted(routers)}.values())


def list_stacks(flow: Flow, nodes: Collection[int]) -> set[int]:
    """How many weights products have at once, one behind the other: as many as there are experts of a kind."""
    return {
        record.shape[0]
        for node in nodes
        if flow.op(node) in STACKED
        for record in flow.steps[node].inputs[1:2]
        if len(record.shape) == 3
    }


def list_products(flow: Flow, nodes: Collection[int], experts: int) -> list[int]:
    """The products with the weights of all experts at once; what deals places out to as many is no weights."""
    reading = list_reading_data(flow)
    products = (node for node in sorted(nodes) if flow.op(node) in STACKED and flow.is_leaf(node))
    return [node for node in products if any(shape[0] == experts for shape in list_held_shapes(flow, node, reading))]


def list_held_shapes(flow: Flow, node: int, reading: Collection[int]) -> list[tuple[int, ...]]:
    """The shapes of the stacks of weights that a product multiplies by."""
    given = flow.given(node)
    return [
        record.shape for record, maker in given if len(record.shape) == 3 and (maker is None or maker not in reading)
    ]


def list_held(flow: Flow, nodes: Collection[int]) -> set[int]:
    """How many matrices each learned tensor holds that steps read, one behind the other; it may have been turned."""
    given = (one for node in nodes for one in flow.given(node))
    held = ((record, flow.before_move(maker, CARRYING)) for record, maker in given if maker not in nodes)
    return {
        record.shape[0]
        for record, moved in held
        if len(record.shape) >= 3 and (record if moved is None else moved[0]).role == "parameter"
    }


def list_routing(flow: Flow, nodes: Collection[int], router: int) -> set[int]:
    """The steps that work on the scores of a router and on nothing else that data made: how experts are chosen.

    By which whole numbers some are picked does not matter, where these come from elsewhere: a table may name experts.
    """
    choices = [node for node in nodes if flow.op(node) == "topk"]
    scorers = [scorers_behind(flow, node, nodes) for node in choices]
    found = {router}.union(*(some for some in scorers if router in some))
    reading = list_reading_data(flow)
    for node in sorted(nodes):
        given = [
            (record, maker)
            for record, maker in flow.given(node)
            if maker in reading and (maker in nodes or flow.carried_from(maker) is not None)
        ]
        worked = {maker for record, maker in given if record.is_float or maker in nodes}
        if worked and found >= worked:
            found.add(node)
    return found - {router}
