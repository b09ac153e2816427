"""Linear layers and moves under canonical paths: what several recorded steps do together."""

from collections.abc import Sequence

from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import SHAPING, TURNS
from xray.story.recognition.projections import data_input
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.way_parts import COPIES


def add_linear(told: Retold, path: str, place: int, trailing: Sequence[int]) -> None:
    """A projection with the moves that follow it."""
    nodes = [place, *trailing]
    core = linear_core(told.flow, nodes)
    told.add(path, sorted({*core, *nodes}), core=core)


def linear_core(flow: Flow, nodes: Sequence[int]) -> tuple[int, ...]:
    """The steps of a projection without those that cut a shared one, and with the moves just before it."""
    wide = flow.output(nodes[0]).shape[-1]
    core = [nodes[0]]
    for node in nodes[1:]:
        if flow.steps[node].outputs[0].shape[-1] != wide or len(flow.steps[node].outputs) > 1:
            break
        core.append(node)
    return tuple(sorted({*core, *flattening_moves(flow, nodes[0])}))


def flattening_moves(flow: Flow, projection: int) -> list[int]:
    """The moves before a projection that only lay its rows under one another, and so belong to it."""
    number = data_input(flow, projection)
    here = None if number is None else flow.makers[projection][number]
    moves: list[int] = []
    while here is not None and flow.op(here) in SHAPING - TURNS and flow.makers[here]:
        before, after = flow.steps[here].inputs[0].shape, flow.output(here).shape
        if before[-1:] != after[-1:] or len(after) > len(before) or len(flow.readers.get(here, ())) > 1:
            break
        if before != after or flow.op(here) in COPIES:
            moves.append(here)
        here = flow.makers[here][0]
    while moves and flow.op(moves[-1]) in COPIES:
        moves.pop()
    return moves


def add_moves(told: Retold, path: str, nodes: Sequence[int]) -> None:
    """A block of views and turns, each a step of its own."""
    flow = told.flow
    told.open(path, nodes, exact=True)
    used: dict[str, int] = {}
    last = path
    for node in moves_in(flow, nodes):
        name = "transpose" if flow.op(node) in TURNS else "view"
        used[name] = used.get(name, 0) + 1
        last = f"{path}.{name}" if used[name] == 1 else f"{path}.{name}_{used[name]}"
        told.add(last, [node])
    told.owners.update(dict.fromkeys(nodes, last))


def moves_in(flow: Flow, nodes: Sequence[int]) -> list[int]:
    """The steps among some that cut or turn, copies left out."""
    return [
        node
        for node in nodes
        if flow.op(node) in SHAPING
        and flow.op(node) not in COPIES
        and (flow.op(node) in TURNS or flow.steps[node].inputs[0].shape != flow.output(node).shape)
    ]


def keeps_last_two(flow: Flow, before: int, node: int) -> bool:
    """Whether a view only gives the leading axes back."""
    one, other = flow.output(before).shape, flow.output(node).shape
    return (
        flow.op(node) in SHAPING - TURNS
        and flow.op(node) not in COPIES
        and len(one) < len(other)
        and one[-2:] == other[-2:]
    )
