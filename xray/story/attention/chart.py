"""The chart of an attention: three ways up, the square of scores, the weighted sum, and back to the stream."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SCALINGS, SUMS
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import Attention
from xray.story.attention.brought_rows import add_others, reads_longer, tell_given, tell_longer
from xray.story.attention.end import draw_end
from xray.story.attention.factors import find_layer_of_both
from xray.story.attention.made_beside import (
    Beside,
    find_joined_values,
    list_own,
    list_weighing,
    read_entry,
    tell_other_rows,
    tell_other_way,
)
from xray.story.attention.pairs import tell_turn
from xray.story.attention.square import describe_own, draw_square
from xray.story.attention.ways.lanes import Part, even_cuts, find_only_part, list_opening, order_rows
from xray.story.attention.ways.part_names import name_part, names_heads, spell_steps
from xray.story.attention.ways.runs import count_turned_rows
from xray.story.attention.ways.shares import tell_shares
from xray.story.attention.ways.ways import Lane, draw_shared, fan_of, is_brought, lane_node, read_attention_lanes
from xray.story.body.stages import Branching
from xray.story.branches.before_last import is_sink_share
from xray.story.branches.heads import leave_own_heads
from xray.story.branches.joint import ANOTHER
from xray.story.branches.operands.sides import Side, is_narrowed
from xray.story.charts.chart import Chart, Edge, Node, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.experts.chosen_heads import add_router
from xray.story.passages.added_places import learned_source, list_of_sines, name_addition
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.turning import is_rotary

OF_PAIRS = (
    "scores",
    "mask",
    "changed",
    "mixed_mask",
    "highest",
    "named_mask",
    "bias",
    "kinds",
    "mix",
    "softmax",
    "mixed_weights",
    "zeroed",
)
"""What the boxes are known by that have a number for each query and key."""
NO_LENGTHS = frozenset({"", "1", "heads", "kv_heads", "d_k", "d_v"})


def chart_attention(flow: Flow, found: Branching) -> Chart:
    """The chart of a branch that is an attention."""
    site, branch = found.site, found.branch
    if site is None or not isinstance(branch, Attention):
        raise ValueError("only an attention has this chart")
    branch = leave_own_heads(flow, site, branch)
    found = replace(found, branch=branch)
    ways = read_attention_lanes(flow, found)
    sides, lanes, turn = ways.sides, ways.own, ways.turn
    nodes: list[Node] = []
    edges: list[Edge] = []
    feet: list[str] = []
    memory: list[str] = []
    row, tops = draw_shared(flow, ways, nodes, edges, feet, memory, branch)
    rows = order_rows(even_cuts(flow, [lane.parts for lane in lanes]))
    drawn = {flow.places[step.id]: node.key for node in nodes for step in node.steps}
    everywhere = dict(drawn)
    again = [part for part in ways.shared[0][1:] if reads_entry(flow, part, found, drawn)]
    feet += [key for key in dict.fromkeys(drawn[part.nodes[-1]] for part in again) if key not in feet]
    for lane, own_rows in zip(lanes, rows, strict=True):
        last = tops.get(lane.letter)
        owners = dict(drawn)
        is_waist = any(part.kind == "linear" and part.number for part in lane.parts) and is_narrowed(flow, lane.side)
        keys = name_parts(flow, lane)
        cut = next((key for key in keys if key.startswith("heads")), keys[0] if keys else "")
        for part, number, key in zip(lane.parts, own_rows, keys, strict=True):
            is_cut = keys.index(key) >= keys.index(cut) or names_heads(part.record) or "kv_heads" in part.record.axes
            other = next((everywhere.get(node) for node in part.nodes), None)
            if part.kind == "linear" and last is None and other is not None:
                owners |= dict.fromkeys(part.nodes, other)  # it is drawn on another way (Zaya's keys)
                last = other
                continue
            place, width = row + number, branch.d_k or 0
            nodes.append(lane_node(flow, lane, part, key, place, is_waist=is_waist, width=width))
            if last is None:
                (feet if lane.side.is_own else memory).append(key)
            elif lane.side.is_own and reads_entry(flow, part, found, owners, lane.side.nodes):
                feet.append(key)
            for source in list_sources(flow, part, lane.side.nodes, owners) or ([] if last is None else [last]):
                edges.append(Edge(source, key, fan_of(part, branch, lane.letter) if source == last and is_cut else 1))
            owners |= dict.fromkeys(part.nodes, key)
            everywhere |= dict.fromkeys(part.nodes, key)
            last = key
        if last is not None:
            tops[lane.letter] = last
    edges += lead_to_choices(flow, lanes, everywhere)
    row += max((own[-1] + 1 for own in rows if own), default=0)
    beside = Beside(everywhere, read_entry(flow, found), list_own(flow, found.region, site))
    row = draw_square(flow, site, branch, turn, tops, row, nodes, edges, feet, beside)
    head = draw_end(flow, site, branch, found.region, row, nodes, edges)
    lead_gate(flow, site, beside, nodes, edges, feet)
    nodes = add_joined_values(flow, site, beside, nodes, edges, feet)
    nodes = tell_other_way(flow, site, beside, nodes, edges, feet)
    nodes = tell_shares(flow, site, nodes, branch)
    is_own = bool(branch.other_rows)
    nodes = (
        tell_other_rows(flow, beside, nodes, edges, feet) if is_own else add_others(flow, found, nodes, edges, memory)
    )
    nodes = tell_given(flow, branch, tell_turn(flow, found, nodes, feet), memory, found.region.start)
    nodes = [name_turn(flow, node, branch, found.region.start, sides) for node in nodes]
    if flow.op(site.scores) != "einsum":
        nodes = name_lengths(nodes, sides)
    nodes = [
        Node(**{**node.__dict__, "surface": "memory", "outline": "ribbon"}) if is_brought(node, lanes) else node
        for node in nodes
    ]
    if reads_longer(branch, nodes, memory):
        nodes, memory = tell_longer(nodes, memory), []
    nodes = mark_joins(branch, nodes, edges)
    chart = Chart(tuple(nodes), tuple(edges), tuple(dict.fromkeys(feet)), head, tuple(dict.fromkeys(memory)))
    return name_changes(add_router(flow, chart))


def mark_joins(branch: Attention, nodes: Sequence[Node], edges: Sequence[Edge]) -> list[Node]:
    """The nodes, those that put rows of another tower beside their own marked with it.

    Where other boxes stand for what works these out, ways lead there, and not to what joins them.
    """
    if branch.beside == ANOTHER:
        return [*nodes]
    brought = {node.key for node in nodes if node.surface == "memory"}
    led = {edge.target for edge in edges if edge.source in brought}
    return [
        replace(node, joins=branch.beside) if node.key.startswith("join") and node.key not in led else node
        for node in nodes
    ]


def lead_to_choices(flow: Flow, lanes: Sequence[Lane], drawn: Mapping[int, str]) -> list[Edge]:
    """The lines from the boxes of keys to those of queries that are chosen by them (Informer)."""
    query, key, _ = lanes
    own = {node: name for node, name in drawn.items() if node in key.side.nodes}
    return [
        Edge(source, drawn[part.nodes[-1]])
        for part in query.parts
        if part.kind == "choose"
        for source in list_sources(flow, part, key.side.nodes, own)
    ]


def lead_gate(
    flow: Flow, site: Site, beside: Beside, nodes: Sequence[Node], edges: list[Edge], feet: list[str]
) -> None:
    """The ways to the gate of what the heads find: from the layer that makes the queries too, or to one of its own.

    What a sink leaves is worked out of the scores that softmax reads.
    """
    gate = next((node for node in nodes if node.key == "gate"), None)
    if gate is None:
        return
    steps = [flow.places[step.id] for step in gate.steps]
    if is_sink_share(flow, site, steps[0]):
        edges += [Edge(edge.source, gate.key) for edge in edges if edge.target == "shares"]
        return
    both = find_layer_of_both(flow, site, steps[0])
    if both is not None:
        edges += [Edge(beside.owners[both], gate.key)] if both in beside.owners else []
        return
    led, is_begun = beside.lead_in(flow, steps, gate.key)
    edges += led
    feet += [gate.key] if is_begun else []


def name_changes(chart: Chart) -> Chart:
    """The chart, of which the boxes that are not called turned have keys of another kind: nothing is said of a turn."""
    keys = {node.key: node.key for node in chart.nodes}
    keys |= {
        key: f"changed_{key}" for key in keys if key.startswith("rotate") and "ROTATE" not in chart.node(key).label
    }
    return replace(
        chart,
        nodes=tuple(replace(node, key=keys[node.key]) for node in chart.nodes),
        edges=tuple(replace(edge, source=keys[edge.source], target=keys[edge.target]) for edge in chart.edges),
        feet=tuple(keys[key] for key in chart.feet),
        memory=tuple(keys[key] for key in chart.memory),
    )


def name_parts(flow: Flow, lane: Lane) -> list[str]:
    """The keys of a lane's parts; a norm before a linear layer is one of a waist, and of no heads."""
    last = max((number for number, part in enumerate(lane.parts) if part.kind == "linear"), default=-1)
    return [
        f"{'waist_' if part.kind == 'norm' and number < last else ''}{name_part(flow, part, lane.letter)}"
        for number, part in enumerate(lane.parts)
    ]


def add_joined_values(
    flow: Flow, site: Site, beside: Beside, nodes: Sequence[Node], edges: list[Edge], feet: list[str]
) -> list[Node]:
    """The boxes, of which one that adds what another share of the weights weighs stands for that too."""
    found = find_joined_values(flow, site, beside.inside)
    add = None if found is None else flow.steps[found[0]]
    own = next((node for node in nodes if add is not None and node.key.startswith("tail") and add in node.steps), None)
    if found is None or own is None:
        return list(nodes)
    made = found[1]
    shares = next(node.key for node in nodes if node.key in ("softmax", "shares"))
    label = "+ WEIGHTS · LEARNED ROWS" if weighs_learned(flow, site, made) else "+ OTHER WEIGHTS · V"
    ways = replace(beside, owners={**beside.owners, site.softmax: shares})
    told = replace(own, label=label, extra=describe_own(flow, site, made))
    told = ways.stand_for(flow, told, made, edges, feet)
    return [told if node is own else node for node in nodes]


def weighs_learned(flow: Flow, site: Site, made: Collection[int]) -> bool:
    """Whether what a product among some steps weighs is made of no data: rows for relative places (VITS)."""
    (product,) = list_weighing(flow, site, made)
    (values, maker) = list(flow.given(product))[-1]
    return values.role == "parameter" if maker is None else maker not in list_reading_data(flow)


def reads_entry(flow: Flow, part: Part, found: Branching, drawn: Mapping[int, str], way: Collection[int] = ()) -> bool:
    """Whether a part of a way reads what the branch begins with, its norm or the stream itself, past what is drawn."""
    opening = list_opening(flow, found)
    entry = max(opening) if opening else found.region.start
    makers = list[int | None]()
    for record, maker in (one for node in part.nodes for one in flow.taken(node)):
        is_other = maker is not None and is_other_part(flow, record, maker, drawn, way)
        makers += flow.makers[maker] if maker is not None and is_other else [maker]

    def ends(one: int) -> bool:
        return one == entry or one in drawn or flow.op(one) not in CARRYING

    return any(one == entry for one in flow.behind(*makers, ends=ends))


def list_sources(flow: Flow, part: Part, nodes: Collection[int], owners: Mapping[int, str]) -> list[str]:
    """The nodes that are drawn already and that a part of a way reads, be it over steps that are not drawn.

    Of a cut that is drawn by one part, another part comes from what is cut. Of a part of no numbers nothing comes
    (GLM-5's keys without places).
    """
    inside = set(nodes) - set(part.nodes)
    found, seen, todo = set[int](), set[int](), list(part.nodes)
    while todo:
        for record, maker in flow.given(todo.pop()):
            if maker is None or maker not in inside or maker in seen | found or 0 in record.shape:
                continue
            if maker in owners and not is_other_part(flow, record, maker, owners, nodes):
                found.add(maker)
            else:
                seen.add(maker)
                todo.append(maker)
    return list(dict.fromkeys(owners[node] for node in sorted(found)))


def is_other_part(
    flow: Flow, record: TensorRecord, maker: int, owners: Mapping[int, str], way: Collection[int]
) -> bool:
    """Whether a record is another one of the parts which a step cuts than those with which its box goes on.

    Parts are told apart by their number, or by their size where a recording does not number them. Where no step of a
    box reads any, it goes on with the one that its way reads, and else with the first one.
    """
    if len(flow.steps[maker].outputs) < 2 or maker not in owners:
        return False
    readers = (one for one in flow.readers.get(maker, ()) if owners.get(one) == owners[maker])
    taken = [given for one in readers for given, source in flow.given(one) if source == maker]
    taken = taken or [one for one in [find_only_part(flow, maker, way)] if one is not None]
    if taken and None not in (record.output, *(one.output for one in taken)):
        return record.output not in {one.output for one in taken}
    return record.shape not in ({one.shape for one in taken} or {flow.output(maker).shape})


def name_lengths(nodes: list[Node], sides: tuple[Side, Side, Side]) -> list[Node]:
    """Axes that the recording has no word for: scores are queries by keys, as long as the stream.

    Of as many heads as places the axis is no length, though it stands where one may (Qwen4's pieces of images).
    """
    query, key, _ = sides
    scores = next((node.record for node in nodes if node.key == "scores"), None)
    offered = scores.shape[-1] if scores is not None and scores.shape else 0
    others = {*NO_LENGTHS, *(scores.axes[:-2] if scores is not None else ())}
    asked = query.end.axes[-2] if len(query.end.axes) > 1 and query.end.axes[-2] not in others else ""
    words = [
        node.record.axes[-2]
        for node in nodes
        if node.key.endswith("_k") and node.record and len(node.record.axes) > 2 and node.record.shape[-2] == offered
    ]
    length = query.end.shape[-2] if len(query.end.shape) > 1 else 0
    seen = next((word for word in words if word not in others), "")
    seen = seen or (asked if key.is_own and offered == length else "")
    return [fill_axes(node, asked, length, seen, offered) for node in nodes]


def fill_axes(node: Node, asked: str, queries: int, seen: str, keys: int) -> Node:
    """A node whose record has the words of its lengths."""
    record = node.record
    if record is None or len(record.axes) < 3:
        return node
    wanted: dict[int, tuple[str, int]] = {}
    if node.key.rstrip("0123456789") in OF_PAIRS:
        wanted = {-2: (asked, queries), -1: (seen, keys)}
    elif node.key == "turn_k":
        wanted = {-1: (seen, keys)}
    elif node.key == "values":
        wanted = {-2: (asked, queries)}
    elif node.key.rpartition("_")[2] in ("k", "v") and len(record.axes) == 4:
        wanted = {-2: (seen, keys)}
    axes = list(record.axes)
    for place, (word, size) in wanted.items():
        if not axes[place] and record.shape[place] == size:
            axes[place] = word
    return replace(node, record=replace(record, axes=tuple(axes)))


def name_turn(flow: Flow, node: Node, branch: Attention, stream: int | None, sides: tuple[Side, Side, Side]) -> Node:
    """A rotation is called one only where it is proven to turn by places, or by heads; a learned row is a bias."""
    if not node.key.startswith("rotate"):
        return node
    changing = [place for step in node.steps if flow.op(place := flow.places[step.id]) not in CARRYING]
    adds = len(changing) == 1 and flow.op(changing[0]) in SUMS
    if adds and adds_bias(flow, changing[0], (branch.heads, branch.kv_heads)):
        extra = node.extra or describe_params(flow, changing[0])
        return replace(node, label=node.label.replace("ROTATE", "+ A BIAS"), extra=extra)
    own = {flow.places[step.id] for step in node.steps}
    if not adds and (branch.positions == "rotary" or branch.turned_by_head) and turns_here(flow, node.key, own, sides):
        some = count_turned_rows(flow, own)
        told = "ROTATE" if some is None else f"ROTATE {some[0]:,} OF {some[1]:,} ROWS"
        return replace(node, label=node.label.replace("ROTATE", told))
    if branch.positions == "waves" and not adds:
        return replace(node, label=node.label.replace("ROTATE", "COSINES AND SINES ×"))
    name = name_addition(flow, changing[0], stream) if adds else spell_steps(flow, changing)
    more = steps_at(flow, *list_of_sines(flow, changing[0], stream)) if adds else ()
    return replace(node, label=node.label.replace("ROTATE", name), steps=(*node.steps, *more))


def turns_here(flow: Flow, key: str, own: Collection[int], sides: tuple[Side, Side, Side]) -> bool:
    """Whether it is the steps of a box by which the operand that its key tells is turned, and none before them."""
    way = sides["qkv".index(key[-1])].nodes
    return is_rotary(flow, {one for one in way if one <= max(own)}) and not is_rotary(
        flow, {one for one in way if one < min(own)}
    )


def adds_bias(flow: Flow, node: int, heads: Collection[int | None]) -> bool:
    """Whether a sum adds one learned row to the rows of all places, be it cut into so many heads (DeBERTa)."""
    width = flow.output(node).shape[-1]
    learned = [learned_source(flow, *before_scale(flow, *given)) for given in flow.given(node)]
    rows = {width, *(width * count for count in heads if count)}
    return any(record is not None and prod(record.shape) in rows for record in learned)


def before_scale(flow: Flow, record: TensorRecord, maker: int | None) -> tuple[TensorRecord, int | None]:
    """What a tensor was before it was multiplied by one number, if it was; itself, if it was not (Funnel)."""
    if maker is not None and flow.op(maker) in SCALINGS and len(flow.steps[maker].inputs) == 1:
        return next(flow.given(maker))
    return record, maker
