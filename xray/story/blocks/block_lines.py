"""What flows between the items of a plan: from node to node, in from outside, and out of the model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.blocks.items import NOBODY, Item, Plan
from xray.story.blocks.tree import OUTSIDE, Tree, name_place

MOST_OUT = 4
"""As many tensors that leave the model are shown; the others are counted."""
MOST_FLOWS, FEWEST_FLOWS = 2.5, 2
"""More ways than so many for each node are a thicket; then a node shows so many of those that lead to it."""
SHOWN_ROLES = ("ids", "activation", "mask", "logits", "loss")


@dataclass(frozen=True)
class Flow:
    """A tensor on its way from one node to another."""

    start: int
    end: int
    record: TensorRecord


@dataclass(frozen=True)
class Gate:
    """Where a tensor enters the drawing or leaves it: its name, itself, and the nodes that read or make it.

    An "input" is given to the model, "before" was made in an earlier pass, a "constant" comes from nowhere that was
    recorded; `rest` counts tensors that leave beside an "output" and are not shown. `step` and `order` say whose input
    or output it is, and which.
    """

    kind: Literal["input", "before", "constant", "output"]
    name: str
    record: TensorRecord
    nodes: tuple[int, ...]
    step: str
    order: int
    rest: int = 0


def list_flows(plan: Plan) -> tuple[Flow, ...]:
    """Each way between two nodes once, by the first tensor that goes it; ways inside of what is folded are left out."""
    found: dict[tuple[int, int], Flow] = {}
    for place, number, step in drawn_steps(plan):
        for record, source in zip(step.inputs, plan.tree.sources[place], strict=True):
            start = maker_of(plan, source)
            if start not in (NOBODY, number):
                found.setdefault((start, number), Flow(start, number, record))
    return tuple(found.values())


def thin_flows(plan: Plan, flows: Sequence[Flow]) -> tuple[tuple[Flow, ...], Mapping[int, tuple[int, ...]]]:
    """The flows that are drawn, and for each node from which others it reads as well.

    Where nodes read far more others than a drawing can show, as when every layer reads all layers before it, each keeps
    the nearest ones.
    """
    if len(flows) <= MOST_FLOWS * len(plan.nodes):
        return tuple(flows), {}
    starts: dict[int, list[int]] = {}
    for flow in flows:
        starts.setdefault(flow.end, []).append(flow.start)
    left = {end: tuple(sorted(found)[:-FEWEST_FLOWS]) for end, found in starts.items() if len(found) > FEWEST_FLOWS + 1}
    return tuple(flow for flow in flows if flow.start not in left.get(flow.end, ())), left


def reads_alike(tree: Tree, item: Item) -> bool:
    """Whether neighbours that stand once for several times all begin with what one step before them made."""
    begins = {tree.sources[item.first + number * item.length][:1] for number in range(item.count)}
    (first, *others) = begins
    return item.count > 1 and not others and len(first) == 1 and OUTSIDE < first[0] < item.first


def drawn_steps(plan: Plan) -> Iterator[tuple[int, int, Step]]:
    """The steps that stand for themselves, with their place and the node that they belong to."""
    for place, step in enumerate(plan.tree.steps):
        if plan.shown[place] == place and plan.owners[place] != NOBODY:
            yield place, plan.owners[place], step


def maker_of(plan: Plan, source: int) -> int:
    """The node of the step at a place; that of its last part where it is an opened block."""
    while source != OUTSIDE and plan.owners[source] == NOBODY and plan.tree.inside[source]:
        source = plan.tree.inside[source][-1]
    return NOBODY if source == OUTSIDE else plan.owners[source]


def list_entrances(plan: Plan) -> tuple[Gate, ...]:
    """What comes from outside, each tensor once; parameters are part of the steps that own them."""
    gates: dict[object, Gate] = {}
    for place, number, step in drawn_steps(plan):
        is_glue = plan.tree.parents[place] == OUTSIDE and has_model(plan.tree) and not plan.tree.inside[place]
        for order, (record, source) in enumerate(zip(step.inputs, plan.tree.sources[place], strict=True)):
            if source != OUTSIDE or record.role not in SHOWN_ROLES or is_glue:
                continue
            key, gate = find_gate(plan, place, order, record)
            known = gates.get(key)
            if known is not None:
                gate = known if number in known.nodes else replace(known, nodes=(*known.nodes, number))
            elif gate.kind != "constant" or plan.nodes[number].kind == "step":
                gate = replace(gate, nodes=(number,))
            else:
                continue
            gates[key] = gate
    return tuple(gates.values())


def has_model(tree: Tree) -> bool:
    """Whether there is a block among the outermost steps."""
    return any(tree.inside[place] for place in tree.roots)


def find_gate(plan: Plan, place: int, order: int, record: TensorRecord) -> tuple[object, Gate]:
    """Where an input of a step comes into the drawing, and what tells it from others."""
    tree = plan.tree
    step = tree.steps[place]
    given = find_given(tree, place, record)
    if given is not None:
        around, number = given
        one = tree.steps[around].inputs[number]
        return ("input", *given), Gate("input", one.name, one, (), tree.steps[around].id, number)
    if record.source is not None:
        name = ".".join(record.source.partition("#")[0].split(".")[-2:])
        return ("before", record.source), Gate("before", name, record, (), step.id, order)
    return ("constant", place, order), Gate("constant", record.name, record, (), step.id, order)


def find_given(tree: Tree, place: int, record: TensorRecord) -> tuple[int, int] | None:
    """Which input of the outermost block around a step is what it reads: that block's place, and the input's number.

    Found by the argument that it is recorded as, by its maker in an earlier pass, else by name, shape and type on the
    way up. None where no input is like it, or several are that cannot be told apart.
    """
    *_, outermost = climb(tree, place)
    arguments = [one.argument for one in tree.steps[outermost].inputs]
    if outermost != place and record.argument is not None and arguments.count(record.argument) == 1:
        return outermost, arguments.index(record.argument)
    around = place
    while tree.parents[around] != OUTSIDE:
        above = tree.parents[around]
        alike = [one for one in tree.steps[above].inputs if one.source == record.source and is_like(one, record)]
        named = [one for one in alike if one.name == record.name]
        if len(named or alike) == 1:
            record = (named or alike)[0]
        elif tree.parents[above] == OUTSIDE:
            return None
        around = above
    for order, one in enumerate(tree.steps[around].inputs):
        if one.source == record.source and one.name == record.name and is_like(one, record):
            return around, order
    return None


def climb(tree: Tree, place: int) -> Iterator[int]:
    """A step and the blocks around it, the outermost last."""
    while place != OUTSIDE:
        yield place
        place = tree.parents[place]


def is_like(one: TensorRecord, other: TensorRecord) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def list_exits(plan: Plan) -> tuple[Gate, ...]:
    """What the model gives back: the outputs of the outermost blocks, or of the last step where there is none."""
    tree = plan.tree
    gates: list[Gate] = []
    for place in [place for place in tree.roots if tree.inside[place]] or list(tree.roots[-1:]):
        step = tree.steps[place]
        found: dict[object, Gate] = {}
        for order, record in enumerate(step.outputs):
            node = exit_node(plan, place, record)
            if node != NOBODY:
                key = order if len(step.outputs) <= MOST_OUT else node
                gate = Gate("output", describe_exit(tree, place, record), record, (node,), step.id, order)
                found.setdefault(key, gate)
        shown = list(found.values())[:MOST_OUT]
        rest = len(step.outputs) - len(shown)
        gates += [replace(gate, rest=rest if not number else 0) for number, gate in enumerate(shown)]
    return tuple(gates)


def exit_node(plan: Plan, place: int, record: TensorRecord) -> int:
    """The node that an output of an outermost step comes from."""
    tree = plan.tree
    if not tree.inside[place]:
        return plan.owners[place]
    last = tree.inside[place][-1]
    handed = [
        one for one in tree.handed_on.get(tree.places.get(record.source or "", OUTSIDE), ()) if place < one <= last
    ]
    maker = handed[-1] if handed else tree.places.get(record.source or "", OUTSIDE)
    return maker_of(plan, maker)


def describe_exit(tree: Tree, place: int, record: TensorRecord) -> str:
    """What leaves, and of which model where there are several."""
    several = sum(bool(tree.inside[one]) for one in tree.roots) > 1
    name = "output" if record.name in ("out", "output") else record.name
    return f"{name} of {name_place(tree.steps[place])}" if several else name
