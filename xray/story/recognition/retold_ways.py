"""The way of queries, keys or values under canonical paths."""

from xray.ir.records import TensorRecord
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operand_ways import Way
from xray.story.recognition.retold_moves import add_moves, linear_core, moves_in
from xray.story.recognition.retold_steps import Block, Named, Retold
from xray.story.recognition.way_parts import WayPart

NAMES = {"split": "split", "rotate": "rotate", "norm": "norm", "cache": "cache", "repeat": "repeat"}


OPS = {
    "split": "split_heads",
    "rotate": "rotate",
    "norm": "norm",
    "cache": "cache",
    "repeat": "repeat",
    "scale": "scale",
    "turn": "transpose",
}


def add_projection(told: Retold, path: str, way: Way, part: WayPart, users: int, block: Block) -> None:
    """A projection; of a shared one only its own share of the parameters."""
    if way.entry is None or way.projection is None:
        return
    core = linear_core(told.flow, part.nodes)
    params = told.count_params(core)
    whole = told.flow.output(way.projection).shape[-1]
    own = part.output.shape[-1]
    if own < whole and params * own % whole == 0:
        params = params * own // whole
    elif own == whole and params % users == 0:
        params //= users
    told.add(
        path,
        "linear",
        sorted({*core, *part.nodes}),
        [("input", way.entry, way.origin)],
        [part.output],
        inside=block,
        settings={"in_features": way.entry.shape[-1], "out_features": own},
        params=params,
        core=core,
    )


def add_part(
    told: Retold,
    path: str,
    name: str,
    part: WayPart,
    way: Way,
    previous: dict[str, tuple[TensorRecord, str | None]],
    block: Block,
) -> None:
    """One part of a way; a split is a block of its moves."""
    flow = told.flow
    if part.kind == "turn":
        own = f"{path}.transpose_key"
    elif part.kind == "scale":
        own = f"{path}.scale" if name == "query" else f"{path}.scale_{name}"
    else:
        own = f"{path}.{NAMES[part.kind]}_{name}"
    first = flow.steps[part.nodes[0]]
    before = previous.get(name)
    entry = (
        told_before(flow, part.nodes[0], way)
        if before is None
        else (before[0], next((maker for _, maker in flow.given(part.nodes[0]) if maker in way.nodes), None))
    )
    label = {"turn": "key", "cache": "new"}.get(part.kind, "x")
    given: list[Named] = [(label, entry[0], entry[1])]
    if part.kind == "cache":
        given = cache_inputs(flow, part, way, given[0])
    if part.kind == "split" and len(moves_in(flow, part.nodes)) > 1:
        known = None if before is None else before[1]
        add_moves(told, own, "split_heads", part.nodes, given[0], part.output, block, known)
    else:
        told.add(own, OPS[part.kind], part.nodes, given, [part.output], inside=block, params=0, settings=first.settings)
        if before is not None and before[1] is not None:
            told.replace_sources(label, before[1])
    previous[name] = (part.output, told.steps[-1].outputs[0].source)


def told_before(flow: Flow, node: int, way: Way) -> tuple[TensorRecord, int | None]:
    """What the first part of a way without a projection reads."""
    record, maker = next(iter(flow.given(node)), (way.end, None))
    return record, maker


def cache_inputs(flow: Flow, part: WayPart, way: Way, new: Named) -> list[Named]:
    """What a cache held, and what joins it."""
    place = (
        next(node for node in part.nodes if len(flow.steps[node].inputs) > 1)
        if any(len(flow.steps[node].inputs) > 1 for node in part.nodes)
        else part.nodes[0]
    )
    past = [("past", record, maker) for record, maker in flow.given(place) if maker not in way.nodes][:1]
    return [*past, new]
