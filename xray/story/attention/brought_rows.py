"""Keys and values of other rows than those that ask: of another stream, or of the own one before (Funnel)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.ir.flow.projections import data_input
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import Attention
from xray.story.attention.made_beside import list_own
from xray.story.attention.ways.lanes import Part, cut_way, lay_out, list_weights, order_rows
from xray.story.attention.ways.part_names import label_part, name_part
from xray.story.body.stages import Branching, opening_norms
from xray.story.charts.chart import Edge, Node, Place, steps_at
from xray.story.charts.counted_weights import describe_params, steps_with_block, weights_at
from xray.story.charts.steps.same_weights import SAME_WEIGHTS
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.norms import find_norm
from xray.story.sentences.of_parts import BEFORE_NORM, GIVEN_ROWS, LONGER

PLACES: Mapping[str, Place] = {"k": (1 / 3, 0.285), "v": (0.683, 0.277), "kv": (2 / 3, 0.29)}
"""Where boxes of another stream's ways stand: between the lines of queries, keys and values that lead upwards."""
JOINING: Mapping[str, Place] = {"k": (0.4775, 0.355), "v": (0.82975, 0.3255)}
"""Where boxes stand that join them, over these and over the own ones."""


def add_others(flow: Flow, found: Branching, nodes: Sequence[Node], edges: list[Edge], memory: list[str]) -> list[Node]:
    """The boxes, with those of what works out another stream's keys and values before they are joined to the own ones.

    They are drawn where linear layers do so in the branch itself (T5Gemma 2): below the boxes that join, above the own.
    Where queries are joined too there is no room for them (Stable Diffusion 3's last block, in which the text gives).
    """
    is_joint = isinstance(found.branch, Attention) and found.branch.beside
    ways = {node.key: way for node in nodes if is_joint and (way := list_other_way(flow, found, node))}
    is_made = any(is_linear(flow, one) for way in ways.values() for one in way)
    if not is_made or not {letters_of(key) for key in ways} <= {*PLACES}:
        return tell_joined(flow, nodes, found)
    common = frozenset[int].intersection(*ways.values()) if len(ways) > 1 else frozenset[int]()
    joined = {node.key: [record for record, _ in list_joined(flow, found, node)] for node in nodes if node.key in ways}
    shared = cut_other_way(flow, common, None)
    own = [cut_other_way(flow, way - common, joined[key][-1]) for key, way in ways.items()]
    rows = [list(range(len(shared))), *([len(shared) + row for row in lane] for lane in order_rows(own))]
    first = min(node.row for node in nodes if node.key in ways)
    raised = make_room(nodes, {*ways}, first, 1 + max(max(lane, default=-1) for lane in rows))
    held = weights_at(flow, (flow.places[step.id] for node in nodes for step in node.steps))
    below = ""
    for join, parts, lane in zip(("", *ways), (shared, *own), rows, strict=True):
        letters, last = letters_of(join) or "kv", below
        for part, row in zip(parts, lane, strict=True):
            behind = [*parts[parts.index(part) + 1 :], *(one for lane in own * (not join) for one in lane)]
            is_last = all(one.kind != "linear" for one in behind)
            node = draw_other(flow, part, letters, first + row, held, is_last=is_last)
            raised.append(node)
            edges += [Edge(last, node.key)] if last else []
            memory += [] if last else [node.key]
            last = node.key
        below = below if join else last
        edges += [Edge(last, join)] if join and last else []
    return raised


def letters_of(key: str) -> str:
    """Of which of queries, keys and values a box is, by its key."""
    return key.rpartition("_")[2]


def make_room(nodes: Sequence[Node], joins: Collection[str], first: int, count: int) -> list[Node]:
    """The boxes, those from one row on so many rows higher, and those that join wide enough for both ways."""
    raised = [replace(node, row=node.row + count * (node.row >= first)) for node in nodes]
    return [
        replace(node, place=JOINING.get(letters_of(node.key), node.place)) if node.key in joins else node
        for node in raised
    ]


def draw_other(flow: Flow, part: Part, letters: str, row: int, held: Collection[str], *, is_last: bool) -> Node:
    """The box of a part of another stream's way; its weights are counted where no box of the own ways has them."""
    weights, extra = weights_at(flow, part.nodes).keys(), describe_params(flow, *part.nodes)
    several = ", ".join(letters.upper())
    return Node(
        f"other{name_part(flow, part, letters)}",
        label_part(flow, part, several, narrow=True, made=several * is_last),
        row,
        PLACES[letters],
        steps_with_block(flow, *reversed(part.nodes)),
        part.record,
        SAME_WEIGHTS if extra and weights and weights <= {*held} else extra,
        surface="memory",
        outline="ribbon",
    )


def cut_other_way(flow: Flow, nodes: Collection[int], end: TensorRecord | None) -> list[Part]:
    """The parts of another stream's way."""
    return lay_out(cut_way(flow, nodes, end))


def list_joins(flow: Flow, node: Node) -> list[int]:
    """The steps of a box that join rows."""
    places = [flow.places[step.id] for step in node.steps if node.key.startswith("join")]
    return [place for place in places if flow.op(place) in SIDE_BY_SIDE]


def list_joined(flow: Flow, found: Branching, node: Node) -> Iterator[tuple[TensorRecord, int]]:
    """What a box joins that is not worked out of the branch's own stream, and the step that made it."""
    mine = found.region.inner | {found.region.start}
    for place in list_joins(flow, node):
        yield from ((record, maker) for record, maker in flow.given(place) if maker is not None and maker not in mine)


def list_other_way(flow: Flow, found: Branching, node: Node) -> frozenset[int]:
    """The steps of a branch by which what a box joins of another stream is worked out; none where it joins no such."""
    makers = [maker for _, maker in list_joined(flow, found, node)]
    if found.site is None or len(makers) != 1:
        return frozenset()
    data, own = list_reading_data(flow), list_own(flow, found.region, found.site) - found.region.inner
    way = frozenset(flow.behind(*makers, within=lambda one: one in own and one in data))
    return way - list_weights(flow, way)


def tell_joined(flow: Flow, nodes: Sequence[Node], found: Branching) -> list[Node]:
    """The boxes, with the norm that rows of another stream go through before they stand beside a branch's own."""
    region = found.region
    opening = {norm.end for norm in opening_norms(flow, region, region.start)}
    told_nodes: list[Node] = []
    for node in nodes:
        norms = [find_norm(flow, flow.carried_from(maker)) for _, maker in list_joined(flow, found, node)]
        own = [one for one in norms if one and one.end in region.inner | region.beside and one.end not in opening]
        places = [place for one in own for place in one.nodes]
        params = describe_params(flow, *places)
        told = (f"the others normed{', ' if params else ''}{params}",) if own else ()
        drawn = [step for one in told_nodes for step in one.steps]
        steps = (*node.steps, *(step for step in steps_at(flow, *places) if step not in drawn))
        told_nodes.append(replace(node, steps=steps, told=(*node.told, *told)))
    return told_nodes


def reads_longer(branch: Attention, nodes: Sequence[Node], brought: Collection[str]) -> bool:
    """Whether boxes that read what was made before a layer work on more rows of its own stream than ask there."""
    asking = next((node.record for node in nodes if node.key == "linear0_q"), None)
    offered = [node.record for node in nodes if node.key in brought]
    if branch.source != "self" or branch.other_rows or branch.beside or asking is None or not offered:
        return False
    return all(one is not None and one.shape[1:2] > asking.shape[1:2] for one in offered)


def has_longer(nodes: Sequence[Node]) -> bool:
    """Whether keys and values of the stream itself have more rows than its queries, so that boxes tell of it."""
    rows = {node.key: node.record.shape[1:2] for node in nodes if node.record is not None and node.surface == "own"}
    asking = rows.get("linear0_q")
    return asking is not None and all(rows.get(f"linear0_{letter}", ()) > asking for letter in "kv")


def tell_longer(nodes: Sequence[Node], brought: Collection[str]) -> list[Node]:
    """The boxes as those of the stream itself; the first ones tell of how many rows they are."""
    found = []
    for node in nodes:
        node = replace(node, surface="own") if node.surface == "memory" else node
        rows = node.record.shape[1] if node.key in brought and node.record else 0
        found.append(replace(node, told=(*node.told, LONGER.format(rows=rows))) if rows else node)
    return found


def tell_given(
    flow: Flow, branch: Attention, nodes: Sequence[Node], brought: Collection[str], start: int | None
) -> list[Node]:
    """The boxes, of which the first ones of keys and values say what they read that is not what the branch begins with.

    They read another tensor, which no step made (Q-Formers), or what that was before the norm it went through (SASRec).
    """
    norm = None if start is None else find_norm(flow, flow.carried_from(start))
    before = None if norm is None else flow.carried_from(norm.origin)

    def name(node: Node) -> str:
        linear = next((place for step in node.steps if is_linear(flow, place := flow.places[step.id])), None)
        number = None if linear is None else data_input(flow, linear)
        if linear is None or number is None:
            return ""
        given, maker = flow.steps[linear].inputs[number], flow.carried_from(flow.makers[linear][number])
        if branch.source is None and not given.source:
            return GIVEN_ROWS.format(shape="×".join(map(str, given.shape)))
        return BEFORE_NORM if branch.source == "self" and before is not None and maker == before else ""

    return [
        replace(node, told=(*node.told, told)) if node.key in brought and (told := name(node)) else node
        for node in nodes
    ]
