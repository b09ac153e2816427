"""The way of queries, keys or values cut into what a reader knows: projection, split, rotation, cache, repeat."""

from dataclasses import dataclass
from typing import Literal

from xray.ir.records import TensorRecord
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operand_ways import Way
from xray.story.recognition.operation_kinds import (
    CARRYING,
    CASTING,
    DROPOUTS,
    JOINS,
    NORMS,
    REPEATS,
    SCALINGS,
    SHAPING,
    STATISTICS,
    SUMS,
    TURNS,
    WRITES,
)

PartKind = Literal["project", "split", "rotate", "norm", "cache", "repeat", "scale", "turn"]
COPIES = frozenset({"contiguous", "clone", "detach", "alias"}) | CASTING


@dataclass(frozen=True)
class WayPart:
    """Some neighbouring steps of a way that together do one thing, and what the last of them gave on."""

    kind: PartKind
    nodes: tuple[int, ...]
    output: TensorRecord


def cut_way(flow: Flow, way: Way, *, shared: bool, is_key: bool, d_k: int) -> list[WayPart]:
    """The parts of a way, in order; `shared` says that one projection made more than this, `d_k` how wide a head is."""
    if not way.nodes:
        return []
    runs = cut_runs(flow, way)
    project: list[int] = []
    if way.projection is not None:
        project = take_projection(flow, way, shared=shared, d_k=d_k)
    kinds = [(kind, nodes) for kind, nodes in runs if not set(nodes) <= set(project)]
    merged: list[tuple[str, list[int]]] = []
    for kind, nodes in kinds:
        left = [node for node in nodes if node not in project]
        if merged and merged[-1][0] == kind:
            merged[-1][1].extend(left)
        else:
            merged.append((kind, left))
    settled = settle_shapes(flow, merged)
    if is_key:
        settled = take_turn(flow, settled)
    parts: list[tuple[PartKind, list[int]]] = [("project", project), *settled] if project else settled
    return [WayPart(kind, tuple(nodes), handed_on(flow, way, nodes)) for kind, nodes in parts if nodes]


def handed_on(flow: Flow, way: Way, nodes: list[int]) -> TensorRecord:
    """What the last step of a part gave to the next step of the way: one of its outputs, or the operand itself."""
    last = nodes[-1]
    for later in way.nodes:
        if later > last:
            for record, maker in flow.given(later):
                if maker == last:
                    return record
    return way.end if flow.steps[last].id == way.end.source else flow.output(last)


def take_projection(flow: Flow, way: Way, *, shared: bool, d_k: int) -> list[int]:
    """The projection with its bias, the moves that give it its old axes back, and the cut of a shared one."""
    nodes = list(way.nodes)
    taken = [nodes[0]]
    wide = flow.output(nodes[0]).shape[-1:]
    cut = 0
    for position, node in enumerate(nodes[1:], 1):
        step = flow.steps[node]
        follows = flow.makers[node] and taken[-1] in flow.makers[node]
        is_bias = step.op in SUMS and any(one.role == "parameter" or len(one.shape) == 1 for one in step.inputs)
        restores = step.op in SHAPING - TURNS and step.outputs[0].shape[-1:] == wide and len(step.outputs) == 1
        if follows and (is_bias or restores or step.op in COPIES):
            taken.append(node)
            continue
        cut = position
        break
    if not shared or not cut:
        return taken
    whole = size_of(flow.output(taken[-1]).shape)
    for position in range(cut, len(nodes)):
        node = nodes[position]
        if flow.op(node) not in CARRYING:
            break
        following = flow.steps[nodes[position + 1]].inputs if position + 1 < len(nodes) else (way.end,)
        record = next((one for one in following if one.source == flow.steps[node].id), flow.output(node))
        if size_of(record.shape) < whole:
            is_uncut = len(record.shape) >= 2 and record.shape[-1] > d_k
            return nodes[: position + 1] if is_uncut else taken
    return taken


def size_of(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def cut_runs(flow: Flow, way: Way) -> list[tuple[str, list[int]]]:
    """The steps of a way in runs: cut wherever all data goes through one step; what branches and meets is one run."""
    on_way = set(way.nodes)
    last_use = {node: node for node in way.nodes}
    for node in way.nodes:
        for maker in flow.makers[node]:
            if maker in on_way:
                last_use[maker] = max(last_use[maker], node)
    runs: list[tuple[str, list[int]]] = []
    group: list[int] = []
    reach = -1
    for node in way.nodes:
        group.append(node)
        if reach <= node:
            name = name_node(flow, node) if len(group) == 1 else "norm" if is_norm_run(flow, group) else "rotate"
            runs.append((name, group))
            group = []
        reach = max(reach, last_use[node])
    return [*runs, ("rotate", group)] if group else runs


def is_norm_run(flow: Flow, nodes: list[int]) -> bool:
    return any(flow.op(node) in STATISTICS for node in nodes)


def name_node(flow: Flow, node: int) -> str:
    """What one step of a way does."""
    step = flow.steps[node]
    if step.op in JOINS or step.op in WRITES:
        is_empty = any(0 in record.shape for record in step.inputs)
        return "shape" if is_empty else "cache"
    if step.op in REPEATS and step.inputs and step.outputs:
        grows = size_of(step.outputs[0].shape) > size_of(step.inputs[0].shape)
        return "repeat" if grows else "shape"
    if step.op in CARRYING or step.op in DROPOUTS:
        return "shape"
    if step.op in NORMS or (step.module and step.params and flow.is_leaf(node)):
        return "norm"
    tensors = [record for record in step.inputs if len(record.shape) > 0]
    if step.op in SCALINGS and len(tensors) == 1:
        return "scale"
    if step.op == "repeat":
        return "repeat"
    return "rotate"


def settle_shapes(flow: Flow, runs: list[tuple[str, list[int]]]) -> list[tuple[PartKind, list[int]]]:
    """The first moves are the split; later ones go with a repeat beside them, else with what stands before them."""
    settled: list[tuple[PartKind, list[int]]] = []
    waiting: list[int] = []
    for position, (kind, nodes) in enumerate(runs):
        if kind != "shape":
            settled.append((kind, [*waiting, *nodes]))  # type: ignore[arg-type]  # the other words are part kinds
            waiting = []
            continue
        stays = list(nodes)
        if position + 1 < len(runs) and runs[position + 1][0] == "repeat":
            while stays and (settled or len(stays) > 1) and adds_axis(flow, stays[-1]):
                waiting.insert(0, stays.pop())
        if not any(part == "split" for part, _ in settled):
            settled += [("split", stays)] if stays else []
        else:
            settled[-1][1].extend(stays)
    joined: list[tuple[PartKind, list[int]]] = []
    for part, nodes in settled:
        if joined and joined[-1][0] == part:
            joined[-1][1].extend(nodes)
        else:
            joined.append((part, nodes))
    return joined


def adds_axis(flow: Flow, node: int) -> bool:
    """Whether a step puts an axis of size 1 in."""
    step = flow.steps[node]
    before, after = step.inputs[0].shape, step.outputs[0].shape
    return len(after) == len(before) + 1 and size_of(before) == size_of(after)


def take_turn(flow: Flow, parts: list[tuple[PartKind, list[int]]]) -> list[tuple[PartKind, list[int]]]:
    """The last turn of the keys, rows to columns, as a part of its own; no other turn but the split's may be it."""
    turns = [node for _, nodes in parts for node in nodes if flow.op(node) in TURNS]
    if not turns or not turns_last_two(flow, turns[-1]):
        return parts
    taken: list[tuple[PartKind, list[int]]] = []
    for kind, nodes in parts:
        if turns[-1] not in nodes or (kind == "split" and len(turns) == 1) or kind in ("rotate", "norm"):
            taken.append((kind, nodes))
            continue
        position = nodes.index(turns[-1])
        before, after = nodes[:position], nodes[position:]
        taken += [(kind, before), ("turn", after)] if before else [("turn", after)]
    return taken


def turns_last_two(flow: Flow, node: int) -> bool:
    """Whether a turn may have swapped the last two axes and no others."""
    step = flow.steps[node]
    before, after = step.inputs[0].shape, step.outputs[0].shape
    if len(before) < 2 or after != (*before[:-2], before[-1], before[-2]):
        return False
    dims = [value for name, value in step.settings.items() if name in ("dim0", "dim1") and isinstance(value, int)]
    if len(dims) == 2:
        return {dim % len(before) for dim in dims} == {len(before) - 2, len(before) - 1}
    listed = next((value for value in step.settings.values() if isinstance(value, str) and "x" in value), None)
    if listed is not None:
        order = [int(one) % len(before) for one in listed.split("x") if one.lstrip("-").isdecimal()]
        return order == [*range(len(before) - 2), len(before) - 1, len(before) - 2]
    return True
