"""What stands between branches within one sublayer, and before the first (Zamba 2); rows added between two layers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIFFERENCES, LOOKUPS, REPEATS, SCALINGS, SIDE_BY_SIDE, SUMS
from xray.story.anatomy.branches import Unknown
from xray.story.anatomy.tree import Stage
from xray.story.body.stages import Branching, Staging
from xray.story.branches.scored.caps import label_scale, read_factor
from xray.story.charts.chart import (
    BROAD,
    MIDDLE,
    RIGHT_HALF,
    Chart,
    Edge,
    Node,
    add_above,
    chart_alone,
    join_beside,
    stack_charts,
    steps_at,
)
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.stage_names import name_branch
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.entrance.cut_rows import label_cut_rows
from xray.story.passages.added_places import ADDED_UP, adds_held, label_places, name_addition
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.passages.rows_between import RowsBetween, is_worked_out
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.norms import spell_norm
from xray.story.sentences.of_rows import OtherRows, describe_others
from xray.story.sentences.of_ways_past import describe_elsewhere, describe_source
from xray.story.streams.rejoined_rows import RejoinedRows
from xray.story.streams.shortcuts import find_any_norm

TAKEN, REJOINED, LEFT_OUT = "taken", "rejoined", "left"
"""The keys of the boxes of rows that are taken, and of all rows end to end again."""


def chart_beside(flow: Flow, staging: Staging, charts: Sequence[Chart], taken: Collection[int]) -> Chart:
    """The charts of branches of which some stand beside the next one, with all between and behind them (Gemma 3n).

    `taken` are steps that are drawn elsewhere. Each box is led from what it reads, and from nothing else.
    """
    inner = frozenset[int]().union(*(joint.region.inner for joint in staging.joints))
    free = list_free(flow, staging, charts, inner) - set(taken)
    pieces: list[Chart] = []
    behind: set[int] = set()
    for run in list_runs(staging.stage):
        own = {node for number in run for node in staging.branches[number].region.inner}
        own = set(flow.behind(*own, within=inner.__contains__))
        pieces += chart_gap(flow, staging, (own & free) - behind, f"gap{run[0]}_")
        pieces.append(charts[run[0]] if len(run) == 1 else join_beside([charts[number] for number in run]))
        behind |= own
    return lead_pieces(flow, [*pieces, *chart_gap(flow, staging, free - behind, "end")], inner)


def list_runs(stage: Stage) -> list[list[int]]:
    """The branches of a stage by their numbers, those together that stand beside each other."""
    runs: list[list[int]] = []
    for number in range(len(stage.branches)):
        if stage.is_beside(number):
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def chart_gap(
    flow: Flow, staging: Staging, gap: Collection[int], prefix: str, one: Branching | None = None
) -> list[Chart]:
    """The chart of steps that are part of no branch, before `one` of them; none if they do nothing that is drawn."""
    labels = {nested.add: ADDED_UP for joint in staging.joints for nested in joint.nested if nested.add in gap}
    sums = [node for node in gap if flow.op(node) in SUMS and (label_places(flow, node) or adds_held(flow, node))]
    labels |= {node: name_addition(flow, node, None) for node in sums}
    labels |= {node: "MULTIPLIED" for node in gap if multiplies_rows(flow, node)}
    labels |= {node: label_scale(flow, node) for node in gap if multiplies_sum(flow, node)}
    labels |= {node: label for node in gap if (label := label_plumbing(flow, one or staging.branches[0], node))}
    chart = chart_operations(flow, gap, max(gap), labels, prefix) if gap else None
    return [] if chart is None else [chart]


def multiplies_sum(flow: Flow, node: int) -> bool:
    """Whether a step multiplies a sum by a number that is known and not 1."""
    before = flow.carried_from(flow.makers[node][0]) if flow.makers[node] else None
    if flow.op(node) not in SCALINGS or before is None:
        return False
    return flow.op(before) in SUMS and read_factor(flow, node) not in (None, 1)


def multiplies_rows(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows by numbers that are worked out of rows, one for each row at least."""
    given = list(flow.given(node))
    return (
        flow.op(node) in SCALINGS
        and len(given) == 2
        and flow.output(node).shape[-1] > 1
        and find_any_norm(flow, node) is None
        and all(
            record.role == "activation" and len(record.shape) > 1 and maker in list_reading_data(flow)
            for record, maker in given
        )
    )


def lead_pieces(flow: Flow, pieces: Sequence[Chart], within: Collection[int], stream: int | None = None) -> Chart:
    """Charts one above the other, each box led from those below it whose numbers it reads, and from the `stream`."""
    marked = [piece.marked(f"{number}:") for number, piece in enumerate(pieces)]
    owners = {place: node.key for piece in marked for node in piece.nodes for place in list_places(flow, node)}
    nodes: list[Node] = []
    edges: list[Edge] = []
    feet: list[str] = []
    for piece in marked:
        below, fed = {node.key for node in nodes}, {edge.target for edge in piece.edges}
        for node in piece.nodes:
            read = [key for key in list_read(flow, node, owners, within) if key in below]
            edges += [Edge(key, node.key) for key in read]
            is_led = node.key in piece.feet and not read
            is_fed = bool(read) or node.key in fed
            is_led |= is_fed and (reads_itself(flow, node, stream) or lays_beside(flow, node, stream, owners))
            feet += [node.key] if is_led else []
        nodes += piece.raised(1 + max((node.row for node in nodes), default=-1)).nodes
        edges += piece.edges
    memory = tuple(key for piece in marked for key in piece.memory)
    return Chart(tuple(nodes), tuple(edges), tuple(feet), marked[-1].head, memory)


def lead_past(flow: Flow, chart: Chart, stream: int | None, within: Collection[int]) -> Chart:
    """The chart with the stream led past the norm at its foot to boxes that read the stream itself.

    Be it that they put a part of it beside what is made of the other one (SHViT).
    """
    owners = {place: node.key for node in chart.nodes for place in list_places(flow, node)}
    past: list[str] = []
    for edge in chart.edges:
        if edge.source == "opening":
            node = chart.node(edge.target)
            read = list_reached(flow, node, owners, {*within, stream} if stream is not None else within)
            past += [node.key] if stream in read and edge.source not in {owners.get(place) for place in read} else []
    edges = tuple(edge for edge in chart.edges if edge.source != "opening" or edge.target not in past)
    past += [node.key for node in chart.nodes if lays_beside(flow, node, stream, owners)]
    return replace(chart, edges=edges, feet=tuple(dict.fromkeys((*chart.feet, *past))))


def reads_itself(flow: Flow, node: Node, stream: int | None) -> bool:
    """Whether one of a box's steps adds the stream as it is to something else."""
    sums = [place for place in list_places(flow, node) if flow.op(place) in SUMS | DIFFERENCES]
    makers = {maker for place in sums for maker in flow.makers[place] if maker is not None}
    return stream is not None and stream in makers | {flow.carried_from(maker) for maker in makers}


def lays_beside(flow: Flow, node: Node, stream: int | None, drawn: Collection[int]) -> bool:
    """Whether one of a box's steps puts the stream beside something else, moved by no box (LightGlue)."""
    joins = [place for place in list_places(flow, node) if flow.op(place) in SIDE_BY_SIDE]
    for here in (maker for place in joins for maker in flow.makers[place]):
        while here is not None and here not in (stream, *drawn) and flow.op(here) in CARRYING and flow.makers[here]:
            here = flow.makers[here][0]
        if here is not None and here == stream:
            return True
    return False


def list_places(flow: Flow, node: Node) -> set[int]:
    """The places of all steps that a box stands for, those inside of blocks included."""
    places = {flow.places[step.id] for step in node.steps if step.id in flow.places}
    return {inner for place in places for inner in range(place, max(place + 1, flow.ends[place]))}


def list_read(flow: Flow, node: Node, owners: Mapping[int, str], within: Collection[int]) -> list[str]:
    """The boxes whose numbers a box reads, through none that is drawn."""
    found = list_reached(flow, node, owners, within)
    return list(dict.fromkeys(owners[place] for place in found if place in owners and owners[place] != node.key))


def list_reached(flow: Flow, node: Node, owners: Mapping[int, str], within: Collection[int]) -> list[int]:
    """The steps that lead to a box, as far back as the next ones that stand in boxes."""
    own = list_places(flow, node)
    makers = (maker for place in own for maker in flow.makers[place] if maker not in own)
    return list(flow.behind(*makers, within=within.__contains__, ends=owners.__contains__))


def list_free(flow: Flow, staging: Staging, charts: Sequence[Chart], inner: Collection[int]) -> set[int]:
    """The steps of a stage that are part of no branch and are not drawn."""
    drawn = {step.id for chart in charts for node in chart.nodes for step in node.steps}
    held = frozenset[int]().union(*(one.region.inner for one in staging.branches))
    return {node for node in inner if node not in held and flow.is_leaf(node) and flow.steps[node].id not in drawn}


def fill_between(flow: Flow, staging: Staging, charts: Sequence[Chart], taken: Collection[int]) -> list[Chart]:
    """The charts of branches in a row, each above what is worked out before it and is part of none.

    `taken` are steps that are drawn elsewhere. Nothing is filled in where branches stand beside each other.
    """
    if len(charts) < 2 or staging.stage.parallel or len(staging.joints) > 1:
        return list(charts)
    inner = staging.joints[0].region.inner
    drawn = {step.id for chart in charts for node in chart.nodes for step in node.steps}
    free = list_free(flow, staging, charts, inner) - set(taken)
    found: list[Chart] = []
    behind: set[int] = set()
    for number, (one, chart) in enumerate(zip(staging.branches, charts, strict=True)):
        own = set(flow.behind(*one.region.inner, within=inner.__contains__))
        gap = (own & free) - behind
        gap |= list_rejoining(flow, one, behind | gap, drawn)
        gap |= list_begun_norm(flow, one, drawn, gap) - set(taken) if number else set()
        behind |= own
        below = chart_gap(flow, staging, gap, f"gap{number}_", one)
        found.append(stack_read(flow, below[0], chart, inner) if below else chart)
    return [*found, *chart_rest(flow, staging, found)]


def chart_rest(flow: Flow, staging: Staging, charts: Sequence[Chart]) -> list[Chart]:
    """The chart of what is done behind the last of several branches in a row, where it adds what went past that.

    None where no such sum stands there (DreamLite: that of a feed-forward, and a convolution).
    """
    inner = staging.joints[0].region.inner
    behind = flow.behind(*staging.branches[-1].region.inner, within=inner.__contains__)
    rest = list_free(flow, staging, charts, inner).difference(behind)
    last = staging.branches[-1].region.end
    return chart_gap(flow, staging, rest, "end") if any(adds_past(flow, node, last) for node in rest) else []


def adds_past(flow: Flow, node: int, last: int) -> bool:
    """Whether a step adds what another one gives to rows of the same shape from before it."""
    makers = [flow.carried_from(maker) for maker in flow.makers[node]] if flow.op(node) in SUMS else []
    shapes = {record.shape for record in flow.steps[node].inputs}
    return len(makers) == 2 and len(shapes) == 1 and last in makers


def stack_read(flow: Flow, below: Chart, chart: Chart, within: Collection[int]) -> Chart:
    """One chart above another, led to those of its feet that read of that, if only some do (LightGlue's keys)."""
    owners = {place: node.key for node in below.nodes for place in list_places(flow, node)}
    led = tuple(foot for foot in chart.feet if list_read(flow, chart.node(foot), owners, within))
    if len(led) in (0, len(chart.feet)):
        return stack_charts(below, chart)
    stacked = stack_charts(below, replace(chart, feet=led))
    return replace(stacked, feet=(*stacked.feet, *(foot for foot in chart.feet if foot not in led)))


def list_rejoining(flow: Flow, one: Branching, before: Collection[int], drawn: Collection[str]) -> set[int]:
    """The sums with which a branch begins and in which what came before it is added to the stream, if undrawn."""
    return {
        node
        for node in one.region.inner
        if flow.op(node) in SUMS
        and flow.steps[node].id not in drawn
        and one.region.start in flow.makers[node]
        and any(maker in before for maker in flow.makers[node])
    }


def list_begun_norm(flow: Flow, one: Branching, drawn: Collection[str], before: Collection[int]) -> set[int]:
    """The norm with which a branch begins behind what stands before it, if none of its steps is drawn."""
    norms = (find_any_norm(flow, node) for node in one.region.inner)
    return {
        node
        for norm in norms
        if norm is not None and (norm.origin in before or norm.origin not in one.region.inner)
        if not any(flow.steps[part].id in drawn for part in norm.nodes)
        for node in norm.nodes
    }


def label_plumbing(flow: Flow, one: Branching, node: int) -> str:
    """What a step is called that brings the stream together with something else; "" for any other.

    What it makes is read by what follows in the branch alone: the stream itself goes on without it.
    """
    start = one.region.start
    if start is None or start not in (*flow.makers[node], *map(flow.carried_from, flow.makers[node])):
        return ""
    if flow.op(node) in SUMS | DIFFERENCES:
        return "+ THE STREAM" if flow.op(node) in SUMS else "WITHOUT THE STREAM"
    origins = [flow.carried_from(maker) for maker in flow.makers[node] if maker != start]
    is_words = any(maker is not None and flow.op(maker) in LOOKUPS for maker in origins)
    widths = " + ".join(f"{record.shape[-1]:,}" for record in flow.steps[node].inputs if record.shape)
    return f"BESIDE WORDS AS LOOKED UP: {widths}" if flow.op(node) in SIDE_BY_SIDE and is_words else ""


def chart_added(flow: Flow, added: Sequence[RowsBetween], layers: Sequence[int]) -> Chart | None:
    """What is added before the first of some layers: the rows, what works them out, and the sum, with a norm behind it.

    The stream comes by on the left. None where rows are added before some of these layers alone, or before none.
    """
    behind = {one.layer: one for one in added}
    rows = behind.get(layers[0] - 1)
    if rows is None or not is_worked_out(flow, rows):
        return None
    if rows is not added[-1] and any(layer - 1 not in behind for layer in layers):
        return None
    kept = {node for node in rows.nodes if node < rows.source}  # a row that was looked up for all layers
    own = [node for node in rows.nodes if node not in kept]
    layer, labels = layers[0], label_joined_rows(flow, own) | label_kept_rows(flow, own, kept)
    chart = chart_operations(flow, own, own[-1], labels, f"added{layer}_", begins=kept)
    if chart is None or not chart.is_one_lane:
        return None
    told = describe_elsewhere([one.layer for one in added if one is not rows])
    label, source = f"ROWS OF THE {rows.of.upper()} TOWER", describe_source(rows.behind)
    first = Node(f"rows{layer}", label, 0, RIGHT_HALF, steps_at(flow, rows.given), flow.output(rows.given))
    first = replace(first, told=(source,) if source else ())
    norm = find_any_norm(flow, rows.end)
    normed = () if norm is None or flow.carried_from(norm.origin) != rows.add else norm.nodes
    label = "ADD" if flow.output(rows.add).shape == flow.output(rows.end).shape else "ADDED TO SOME ROWS"
    label += f" + {spell_norm(flow, norm)}" if norm is not None and normed else ""
    steps, out = steps_at(flow, *dict.fromkeys((rows.end, *normed, rows.add))), flow.output(rows.end)
    extra, said = describe_params(flow, *normed), (told,) if told else ()
    return join_right(first, chart, Node(f"sum{layer}", label, 0, BROAD, steps, out, extra, told=said))


def label_kept_rows(flow: Flow, own: Collection[int], kept: Collection[int]) -> dict[int, str]:
    """The sums among some steps that add a row of a table which others looked up before, with what they are called."""
    sums = ((node, [one for one in flow.makers[node] if one in kept]) for node in own if flow.op(node) in SUMS)
    begun = {node: {flow.carried_from(one, CARRYING | REPEATS) for one in before} for node, before in sums}
    looked_up = {one for one in kept if flow.op(one) in LOOKUPS}
    return {node: "+ A ROW LOOKED UP BEFORE" for node, before in begun.items() if before & looked_up}


def chart_left_out(flow: Flow, layers: str, end: int, told: str, after: int) -> Chart:
    """The mark of layers that no frame has here, with what the last gives: the stream goes through these too.

    It has no shape where the next sum, `after`, has another: rows are laid out anew on the way (SAINT).
    """
    label = f"LAYER{'S' * (not layers.isdecimal())} {layers}, {told}"
    made = flow.output(end)
    record = made if made.shape == flow.output(after).shape else None
    return chart_alone(Node(f"{LEFT_OUT}{end}", label, 0, MIDDLE, steps_at(flow, end), record, surface="ghost"))


def spell_lengths(flow: Flow, join: int, axis: int = 1) -> str:
    """How many rows each part has that a step puts end to end."""
    return " + ".join(f"{record.shape[axis]:,}" for record in flow.steps[join].inputs)


def join_right(first: Node | None, chart: Chart, last: Node) -> Chart:
    """A chart on the right half, above a box if any is, and above it another one: the stream comes from the left."""
    below = [] if first is None else [first]
    inner = [replace(node, place=RIGHT_HALF) for node in chart.raised(len(below)).nodes]
    fed = {edge.target for edge in chart.edges}
    edges = [Edge(one.key, node.key) for one in below for node in inner if node.key not in fed]
    edges += [*chart.edges, Edge(chart.head, last.key)]
    nodes = (*below, *inner, replace(last, row=chart.rows + len(below)))
    return Chart(nodes, tuple(edges), (last.key,), last.key)


def add_parted(flow: Flow, staging: Staging, chart: Chart) -> Chart:
    """The chart of a stage with the rows that it alone works on below it, and all rows end to end again above it."""
    if staging.taken is not None:
        out = flow.output(staging.joints[0].add) if splits_rows(staging) else flow.output(staging.taken)
        node = Node(TAKEN, label_taken(flow, staging), 0, MIDDLE, steps_at(flow, staging.taken), out)
        chart = stack_charts(chart_alone(node), chart)
    return chart if staging.rejoined is None else add_above(chart, draw_rejoined(flow, staging, staging.rejoined))


def name_parted(flow: Flow, staging: Staging, name: str) -> str:
    """What a stage is called that works on some rows alone, and behind which others may stand beside these."""
    told = "" if staging.taken is None else f" OF {label_taken(flow, staging)}"
    return f"{name}{told}" + ("" if staging.rejoined is None else f", {staging.rejoined.count:,} BESIDE")


def splits_rows(staging: Staging) -> bool:
    """Whether one step takes the rows that a stage works on, and the others."""
    return staging.rejoined is not None and staging.taken == staging.rejoined.other


def label_taken(flow: Flow, staging: Staging) -> str:
    """What the rows are called that a stage alone works on; "" where it works on all of them."""
    rows = staging.rejoined
    if rows is not None and splits_rows(staging):
        is_first = flow.steps[rows.cut].outputs[0].shape[1] == rows.count
        return f"ALL ROWS BUT THE {'FIRST' if is_first else 'LAST'}{f' {rows.count:,}' * (rows.count > 1)}"
    return "" if staging.taken is None else label_cut_rows(flow, staging.taken)


def draw_rejoined(flow: Flow, staging: Staging, rows: RejoinedRows) -> Node:
    """The box in which rows that went two ways are end to end again; it stands for the way that has no other box."""
    others = staging.stage.others or ()
    names = (
        None if any(isinstance(one, Unknown) for one in others) else tuple(name_branch(one).lower() for one in others)
    )
    told = describe_others(OtherRows(rows.count, rows.in_front, names))
    label = f"END TO END: {spell_lengths(flow, rows.join)}"
    leaves = [node for node in sorted(rows.nodes - {rows.join}) if flow.is_leaf(node)]
    extra = describe_params(flow, *leaves)
    steps = steps_at(flow, rows.join, *leaves)
    out = flow.output(rows.join)
    return Node(REJOINED, label, 0, BROAD, steps, out, extra, outline="boundary", told=(told,))
