"""Linear layers and moves under canonical paths: what several recorded steps do together."""

from collections.abc import Sequence

from xray.ir.records import TensorRecord
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import CASTING, SHAPING, TURNS
from xray.story.recognition.projections import data_input
from xray.story.recognition.retold_steps import Block, Named, Retold
from xray.story.recognition.way_parts import COPIES


def add_linear(told: Retold, path: str, place: int, trailing: Sequence[int], block: Block | None) -> None:
    """A projection with the moves that follow it."""
    flow = told.flow
    nodes = [place, *trailing]
    number = data_input(flow, place) or 0
    record = flow.steps[place].inputs[number]
    maker = flow.makers[place][number]
    while maker not in told.owners and (before := flow.before_move(maker, SHAPING | CASTING)) is not None:
        record, maker = before
    core = linear_core(flow, nodes)
    told.add(
        path,
        "linear",
        sorted({*core, *nodes}),
        [("input", record, maker)],
        [flow.output(nodes[-1])],
        inside=block,
        settings={"in_features": record.shape[-1], "out_features": flow.output(nodes[-1]).shape[-1]},
        params=told.count_params(core),
        core=core,
    )


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


def add_moves(
    told: Retold,
    path: str,
    op: str,
    nodes: Sequence[int],
    given: Named,
    output: TensorRecord,
    inside: Block,
    known: str | None = None,
) -> None:
    """A block of views and turns, each a step of its own; `known` is the canonical source of what they begin with."""
    flow = told.flow
    block = told.open(path, op, nodes, inside, exact=True)
    moves = moves_in(flow, nodes)
    used: dict[str, int] = {}
    record, maker = given[1], given[2]
    source = known
    for number, node in enumerate(moves):
        name = "transpose" if flow.op(node) in TURNS else "view"
        used[name] = used.get(name, 0) + 1
        label = name if used[name] == 1 else f"{name}_{used[name]}"
        made = output if number == len(moves) - 1 else handed_to(flow, node, moves[number + 1], nodes)
        told.add(f"{path}.{label}", name, [node], [("x", record, maker)], [made], inside=block, params=0)
        if source is not None:
            told.replace_sources("x", source)
        source = told.steps[-1].id
        record, maker = made, node
    told.close(block, [given], known=known)
    told.owners.update(dict.fromkeys(nodes, source or block.id))


def moves_in(flow: Flow, nodes: Sequence[int]) -> list[int]:
    """The steps among some that cut or turn, copies left out."""
    return [
        node
        for node in nodes
        if flow.op(node) in SHAPING
        and flow.op(node) not in COPIES
        and (flow.op(node) in TURNS or flow.steps[node].inputs[0].shape != flow.output(node).shape)
    ]


def handed_to(flow: Flow, node: int, following: int, nodes: Sequence[int]) -> TensorRecord:
    """The output of a step that the next one reads."""
    for record, maker in flow.given(following):
        if maker == node:
            return record
    return flow.output(node)


def keeps_last_two(flow: Flow, before: int, node: int) -> bool:
    """Whether a view only gives the leading axes back."""
    one, other = flow.output(before).shape, flow.output(node).shape
    return (
        flow.op(node) in SHAPING - TURNS
        and flow.op(node) not in COPIES
        and len(one) < len(other)
        and one[-2:] == other[-2:]
    )


def name_operands(told: Retold, sources: dict[str, tuple[TensorRecord, str | None] | None]) -> None:
    """Put the canonical sources of named inputs of the last step right, where they are known."""
    for name, found in sources.items():
        if found is not None and found[1] is not None:
            told.replace_sources(name, found[1])
