"""The charts of a feed-forward and of experts: out to d_ff and back, for all places alike or chosen for each."""

from collections.abc import Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.ir.flow.projections import data_input
from xray.story.anatomy.tree import Experts, FeedForward
from xray.story.anatomy.wording import ACTIVATIONS
from xray.story.body.stages import Branching, find_any_norm, name_norm, opening_norms
from xray.story.branches.experts import count_places, find_choice
from xray.story.branches.feed_forward import find_rows_beside, is_bend, is_gate
from xray.story.branches.inner_norms import find_inner_norm
from xray.story.charts.chart import (
    BROAD,
    LEFT_HALF,
    MIDDLE,
    RIGHT_HALF,
    Chart,
    Edge,
    Node,
    Place,
    describe_params,
    draw_inner_norm,
    steps_at,
)
from xray.story.charts.operations_chart import chart_operations
from xray.story.recognition.between import is_linear, projections_in, width_in, width_out
from xray.story.sentences.of_parts import describe_load

FAN: Place = (0.5, 0.94)
"""How wide experts stand beside each other, and the bars below them."""

MOST_EXPERTS = 5
"""So many boxes stand side by side, the last of them for all others; more are too narrow for their names."""


def chart_forward(flow: Flow, found: Branching) -> Chart | None:
    """The chart of a feed-forward: expand (and gate), bend, contract."""
    branch = found.branch
    if not isinstance(branch, FeedForward):
        return None
    nodes = found.region.inner
    projections = projections_in(flow, nodes)
    last = projections[-1]
    wide = [node for node in projections[:-1] if width_out(flow, node) in (branch.d_ff, 2 * (branch.d_ff or 0))]
    if branch.kernel is not None or not wide or len(projections) != len(wide) + 1 or len(wide) > 2:
        opened = [norm.end for norm in opening_norms(flow, found.region, found.region.start)]
        own = [node for node in nodes if node > max(opened, default=-1)]
        return chart_operations(flow, own, found.region.end)
    bend = ACTIVATIONS.get(branch.activation or "", (branch.activation or "").upper())
    with_bend = f" + {bend}" if bend else ""
    between = [
        node for node in sorted(nodes) if wide[0] < node < last and node not in projections and flow.is_leaf(node)
    ]
    gate = next((node for node in reversed(between) if is_gate(flow, node, set(nodes), wide)), None)
    drawn: list[Node] = []
    edges: list[Edge] = []
    feet: tuple[str, ...]
    if branch.gated and len(wide) == 2 and gate is not None:
        bent = next((one for one in wide if leads_through(flow, one, gate, wide, nodes)), wide[0])
        for key, one, place in (("gate", bent, LEFT_HALF), ("expand", next(w for w in wide if w != bent), RIGHT_HALF)):
            label = f"GATE{with_bend}" if key == "gate" else "UP"
            drawn.append(
                Node(
                    key,
                    label,
                    0,
                    place,
                    steps_at(flow, one),
                    flow.output(one),
                    describe_params(flow, one),
                )
            )
        drawn.append(
            Node(
                "multiply",
                "GATE × UP",
                1,
                BROAD,
                steps_at(flow, gate),
                flow.output(gate),
            )
        )
        edges = [Edge("gate", "multiply"), Edge("expand", "multiply")]
        feet, top, row = ("gate", "expand"), "multiply", 2
    elif branch.gates_beside and len(wide) == 1:
        times = find_rows_beside(flow, found.region, between)
        drawn += [
            Node(
                "gate",
                f"GATE{with_bend}",
                0,
                BROAD,
                steps_at(flow, *wide),
                flow.output(wide[0]),
                describe_params(flow, *wide),
            ),
            Node("beside", "× ROWS FROM BESIDE", 1, BROAD, steps_at(flow, times or last), flow.output(times or last)),
        ]
        edges, feet, top, row = [Edge("gate", "beside")], ("gate",), "beside", 2
    else:
        is_fused = branch.gated and gate is not None
        label = "ONE LINEAR FOR GATE AND UP" if is_fused else f"LINEAR{name_norm_between(flow, between)}{with_bend}"
        joined = find_joined(flow, found, wide[0])
        first = 0 if joined is None else 1
        if joined is not None:
            drawn.append(Node("join", "BESIDE THE STREAM", 0, BROAD, steps_at(flow, joined), flow.output(joined)))
            edges.append(Edge("join", "expand"))
        drawn.append(
            Node(
                "expand",
                label,
                first,
                BROAD,
                steps_at(flow, wide[0], *([] if is_fused else between)),
                flow.output(wide[0]),
                describe_params(flow, wide[0]),
            )
        )
        feet, top, row = (drawn[0].key,), "expand", first + 1
        if is_fused and gate is not None:
            drawn.append(
                Node(
                    "multiply",
                    f"GATE{with_bend}, × UP",
                    row,
                    BROAD,
                    steps_at(flow, gate),
                    flow.output(gate),
                )
            )
            edges.append(Edge("expand", "multiply"))
            top, row = "multiply", row + 1
    inner = find_inner_norm(flow, last, between)
    if inner is not None:
        drawn.append(draw_inner_norm(flow, inner, row))
        edges.append(Edge(top, "inner"))
        top, row = "inner", row + 1
    counted = describe_params(flow, last)
    drawn.append(Node("contract", "LINEAR", row, BROAD, steps_at(flow, last), flow.output(last), counted))
    edges.append(Edge(top, "contract"))
    return Chart(tuple(drawn), tuple(edges), feet, "contract")


def find_joined(flow: Flow, found: Branching, wide: int) -> int | None:
    """The step that puts what a part before it found beside the stream's own rows, for a linear layer to read both."""
    number = data_input(flow, wide)
    join = None if number is None else flow.carried_from(flow.makers[wide][number])
    if join is None or flow.op(join) not in SIDE_BY_SIDE or found.region.start is None:
        return None
    before, after = flow.steps[join].inputs[0].shape, flow.output(join).shape
    is_wider = [more for less, more in zip(before, after, strict=True) if more > less] == [width_in(flow, wide)]
    own = [flow.carried_from(maker) == found.region.start for maker in flow.makers[join]]
    return join if is_wider and own.count(True) == 1 < len(own) else None


def name_norm_between(flow: Flow, between: Sequence[int]) -> str:
    """The norm of the wide rows before they are bent, as it stands in a label; empty if there is none."""
    bend = next((node for node in between if is_bend(flow, node)), None)
    norm = next((one for node in between if bend and node < bend and (one := find_any_norm(flow, node))), None)
    kind = None if norm is None else name_norm(flow, norm)
    return "" if norm is None else f" + {kind.upper()} NORM" if kind else " + NORM"


def leads_through(flow: Flow, start: int, gate: int, wide: list[int], nodes: frozenset[int]) -> bool:
    """Whether what a linear layer makes is bent before the product."""
    return not any(flow.carried_from(maker) == start for maker in flow.makers[gate] if maker is not None)


def describe_choice(chosen_by: str | None, chosen: int, count: int) -> str:
    """How many experts are chosen, and by what, as far as that is known."""
    if not chosen:
        return "CHOICE"
    return f"{chosen} OF {count}, BY A TABLE" if chosen_by == "table" else f"{chosen} OF {count} CHOSEN"


def chart_experts(flow: Flow, found: Branching) -> Chart | None:
    """The chart of experts: the router, the choice, a fan of experts, and their weighted sum."""
    branch = found.branch
    nodes = found.region.inner
    choice = find_choice(flow, nodes)
    if not isinstance(branch, Experts) or choice is None:
        return None
    chosen_at, router = choice
    count, chosen = branch.experts or 0, branch.chosen or 0
    drawn = [
        Node(
            "router",
            "ROUTER",
            0,
            MIDDLE,
            steps_at(flow, router),
            flow.output(router),
            describe_params(flow, router) or weights_of(flow, router),
        ),
        Node(
            "choice",
            describe_choice(branch.chosen_by, chosen, count),
            1,
            MIDDLE,
            steps_at(flow, chosen_at),
            flow.output(chosen_at),
        ),
    ]
    edges = [Edge("router", "choice")]
    load = count_places(flow, nodes)
    if load:
        drawn.append(Node("load", describe_load(load), 2, FAN, form="bars", bars=load))
        edges.append(Edge("choice", "load"))
    below, row = drawn[-1].key, drawn[-1].row + 1
    shown = min(count, MOST_EXPERTS)
    for number in range(shown):
        is_chosen = number < min(max(chosen, 1), shown - 1 if count > chosen else shown)
        is_last = number == shown - 1 and count > shown
        label = "…" if is_last else f"EXPERT {number + 1}"
        drawn.append(
            Node(
                f"expert{number}",
                label,
                row,
                ((number + 0.5) / shown, FAN[1] / shown),
                surface="own" if is_chosen else "ghost",
            )
        )
        if is_chosen:
            edges.append(Edge(below, f"expert{number}"))
    row += 1
    heavy = [node for node in sorted(nodes) if is_stacked(flow, node, count)]
    if len(heavy) >= 2:
        bend = ACTIVATIONS.get(branch.activation or "", (branch.activation or "").upper())
        inside = "GATE, UP" if branch.gated else "EXPAND"
        drawn.append(
            Node(
                "each",
                f"IN EACH: {inside}{' + ' + bend if bend else ''}",
                row,
                BROAD,
                steps_at(flow, heavy[0]),
                flow.output(heavy[0]),
                stack_size(flow, heavy[0], count),
            )
        )
        drawn.append(
            Node(
                "back",
                "AND BACK",
                row + 1,
                BROAD,
                steps_at(flow, heavy[-1]),
                flow.output(heavy[-1]),
                stack_size(flow, heavy[-1], count),
            )
        )
        edges += [
            Edge(f"expert{number}", "each") for number in range(shown) if f"expert{number}" in {e.target for e in edges}
        ]
        edges.append(Edge("each", "back"))
        top, row = "back", row + 2
    else:
        top = "expert0"
    end = found.region.end
    drawn.append(
        Node(
            "mixed",
            "SUM, WEIGHTED BY THE ROUTER" + (" + SHARED EXPERT" if branch.shared else ""),
            row,
            BROAD,
            steps_at(flow, end),
            flow.output(end),
        )
    )
    edges.append(Edge(top, "mixed"))
    feet = ["router"]
    if branch.shared:
        drawn.append(Node("shared", "SHARED EXPERT", 1, (0.845, 0.3)))
        edges.append(Edge("shared", "mixed"))
        drawn = [
            Node(**{**node.__dict__, "place": (0.345, 0.66)}) if node.key in ("router", "choice") else node
            for node in drawn
        ]
        feet.append("shared")
    return Chart(tuple(drawn), tuple(edges), tuple(feet), "mixed")


def weights_of(flow: Flow, node: int) -> str:
    sizes = [
        record.shape for record in flow.steps[node].inputs if record.role == "parameter" and len(record.shape) == 2
    ]
    return f"{sizes[0][0] * sizes[0][1]:,} parameters" if sizes else ""


def is_stacked(flow: Flow, node: int, count: int) -> bool:
    """Whether a step multiplies by the weights of all experts at once."""
    return (
        flow.is_leaf(node)
        and not is_linear(flow, node)
        and flow.op(node).endswith(("mm", "matmul", "einsum"))
        and any(len(record.shape) == 3 and record.shape[0] == count for record in flow.steps[node].inputs)
    )


def stack_size(flow: Flow, node: int, count: int) -> str:
    """How many weights all experts have there together."""
    shape = next((r.shape for r in flow.steps[node].inputs if len(r.shape) == 3 and r.shape[0] == count), None)
    return "" if shape is None else f"{shape[0] * shape[1] * shape[2]:,} parameters"
