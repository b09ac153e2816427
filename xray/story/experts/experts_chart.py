"""The chart of experts: a router, what it chooses, what each of them does, and their weighted sum."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SCALINGS, SIDE_BY_SIDE, SUMS
from xray.ir.flow.projections import is_product
from xray.ir.trace import Step
from xray.story.anatomy.branch_words import label_activation
from xray.story.anatomy.branches import Experts
from xray.story.body.stages import Branching
from xray.story.branches.feed_forward import list_bending, steps_behind
from xray.story.branches.scored.caps import read_factor
from xray.story.charts.chart import (
    BROAD,
    MIDDLE,
    Chart,
    Edge,
    Node,
    Place,
    chart_alone,
    join_beside,
    stack_charts,
    steps_at,
)
from xray.story.charts.counted_weights import count_params, describe_params
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.experts.choice import find_choice, list_held_shapes, list_products, list_routers, list_routing
from xray.story.experts.experts import count_places, is_product_of_two, list_shared
from xray.story.experts.held_gates import find_held
from xray.story.experts.mixing import (
    find_last_of_experts,
    find_norm_of_sum,
    list_entering,
    list_factors,
    list_mixing,
    list_norm_of,
    name_norm_of,
    reads_rows,
    seek_down,
    seek_up,
    weighs,
)
from xray.story.experts.neighbours import find_mixed_behind
from xray.story.experts.router_chart import add_way
from xray.story.experts.sets import find_picked, list_sets, name_parting
from xray.story.experts.shared_chart import BESIDE_BOTH, BESIDE_ROUTER, name_shared, shared_node
from xray.story.recognition.between import adds_learned_row, is_linear, list_reading_data
from xray.story.recognition.norms import Norm, spell_norm
from xray.story.sentences.of_parts import PARTED, describe_load
from xray.story.wording import plural

FAN: Place = (0.5, 0.94)
"""How wide experts stand beside each other, and the bars below them."""
BESIDE_SHARED, BESIDE_DOWN, BETWEEN = (0.315, 0.6), (0.655, 0.66), (0.5, 0.36)
"""Where a router stands beside a shared expert, beside what leads to a narrower width, and between both."""

MOST_EXPERTS = 5
"""So many boxes stand side by side, the last of them for all others; more are too narrow for their names."""


def describe_choice(chosen_by: str | None, chosen: int, count: int, or_none: int | None) -> str:
    """How many experts are chosen, and by what, as far as that is known."""
    if or_none:
        return f"{or_none} OF {count} CHOSEN, OR NONE"
    if not chosen:
        return "CHOICE"
    return f"{chosen} OF {count}, BY A TABLE OF WORDS" if chosen_by == "table" else f"{chosen} OF {count} CHOSEN"


def find_all_chosen(flow: Flow, routing: Collection[int], chosen: int) -> int | None:
    """The step that lays the numbers of experts side by side which were chosen one after the other (Phi-MoE)."""
    joins = (node for node in sorted(routing) if flow.op(node) in SIDE_BY_SIDE)
    return next(
        (one for one in joins if flow.output(one).shape[-1:] == (chosen,) and "int" in flow.output(one).dtype), None
    )


def chart_experts(flow: Flow, found: Branching) -> Chart | None:
    """The chart of experts: the router, the choice, a fan of experts, and their weighted sum."""
    branch = found.branch
    nodes = found.region.inner
    mixed = find_mixed_behind(flow, found.region)
    if mixed is not None:
        region = replace(found.region, inner=nodes - mixed[1], end=mixed[0])
        chart = chart_experts(flow, replace(found, region=region))
        behind = chart_operations(flow, mixed[1], found.region.end, prefix="behind", begins=mixed[:1])
        return chart if chart is None or behind is None else stack_charts(chart, behind)
    if isinstance(branch, Experts) and branch.others is not None:
        return chart_sets(flow, found, branch)
    choice = find_choice(flow, nodes)
    if not isinstance(branch, Experts) or choice is None:
        return None
    chosen_at, router = choice
    count, chosen = branch.experts or 0, branch.chosen or 0
    parts, routing = list_shared(flow, nodes, router), list_routing(flow, nodes, router)
    shared = {node for part in parts for node in part}
    own = nodes - shared - routing - steps_behind(flow, router, nodes)
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
            describe_choice(branch.chosen_by, chosen, count, branch.chosen_or_none),
            1,
            MIDDLE,
            steps_at(flow, chosen_at, *sorted(routing - {chosen_at})),
            flow.output(find_all_chosen(flow, routing, chosen) or chosen_at),
            describe_params(flow, *sorted(routing)),
        ),
    ]
    edges = [Edge("router", "choice")]
    load = count_places(flow, nodes)
    if load:
        drawn.append(Node("load", describe_load(load), 2, FAN, form="bars", bars=load))
        edges.append(Edge("choice", "load"))
    heavy = list_products(flow, nodes, count)
    entering = list_entering(flow, heavy, own, routing)
    if entering:
        row, scaled = drawn[-1].row + 1, flow.output(entering[-1])
        drawn.append(Node("entering", "WHAT GOES IN × ITS SCORE", row, BROAD, steps_at(flow, *entering), scaled))
        edges.append(Edge(drawn[-2].key, "entering"))
    is_scored = any(not routing.isdisjoint(flow.makers[node]) for part in parts for node in part)
    below, row = drawn[-1].key, drawn[-1].row + 1 + is_scored
    aside = row - 1 if is_scored else 0  # what the router scores too stands above it (Inkling)
    shown = min(count, MOST_EXPERTS)
    lit = chosen or branch.chosen_or_none or count  # any of them, where nobody knows how many
    for number in range(shown):
        is_chosen = number < min(lit, shown - 1 if count > lit else shown)
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
    working = [edge.target for edge in edges if edge.target.startswith("expert")]
    bend = label_activation(branch.activation or "")
    each = f"{count - branch.handing_on} OF THEM" if branch.handing_on else "EACH"
    with_bend = f" + {bend}" if bend else ""
    inside = f"IN {each}: {f'GATE{with_bend}, × UP' if branch.gated else f'EXPAND{with_bend}'}"
    if len(heavy) >= 2:
        bent = list_of_each(flow, heavy, own, branch)
        products = [node for node in bent if branch.gated and is_product_of_two(flow, node)]
        made = products[-1] if products else heavy[0]  # what goes on, not gate and up side by side
        steps = steps_at(flow, *dict.fromkeys((made, *heavy[:-1], *bent)))
        size = tell_together(sum(count_stacked(flow, node, count) for node in heavy[:-1]), count)
        told = tell_held_gate(flow, steps, own, branch)
        drawn.append(Node("each", inside, row, BROAD, steps, flow.output(made), size, told=told))
        norm = list_norm_of(flow, heavy[-1], nodes)
        size = tell_together(count_stacked(flow, heavy[-1], count) + count_params(flow, *norm), count)
        drawn.append(
            Node(
                "back",
                f"AND BACK{name_norm_of(flow, heavy[-1], nodes)}",
                row + 1,
                BROAD,
                steps_at(flow, heavy[-1], *norm),
                flow.output(heavy[-1]),
                size,
            )
        )
        edges += [Edge(one, "each") for one in working]
        edges.append(Edge("each", "back"))
        tops, row = ["back"], row + 2
    else:
        tops, apart = working, steps_at(flow, *list_apart(flow, own, branch))
        if branch.activation is not None and branch.gated is not None:
            told = tell_held_gate(flow, apart, own, branch)
            drawn.append(Node("each", f"{inside}, AND BACK", row, BROAD, apart, told=told))
            edges += [Edge(one, "each") for one in working]
            tops, row = ["each"], row + 1
        else:
            drawn = [replace(one, steps=apart) if one.key == f"expert{shown - 1}" else one for one in drawn]
    end = find_last_of_experts(flow, found.region)
    feet = ["router", *(one.key for one in drawn if one.key == "entering")]
    down, up = (seek_down(flow, heavy[0], nodes), seek_up(flow, end, heavy[-1], nodes)) if heavy else (None, None)
    first = heavy[:1] or list_apart(flow, own, branch)
    is_alone = len(feet) == 1 and down is None and any(one.key == "each" for one in drawn)
    if is_alone and reads_rows(flow, found.region, first, own, router):
        feet.append("each")
    is_waist = down is not None and up is not None
    normed = find_norm_of_sum(flow, end, heavy[-1], nodes) if heavy and branch.shared and not is_waist else None
    is_apart = is_waist or normed is not None
    before = normed.origin if normed is not None else flow.makers[up][0] if up is not None and is_waist else end
    summed = flow.carried_from(before)
    made = end if summed is None else summed
    beside = f" + {name_shared(flow, parts)}" if branch.shared and not is_apart else ""
    factors = list_factors(flow, heavy, own, end)
    is_other = flow.op(made) in SCALINGS | {"where"} and not weighs(flow, made, routing)
    if is_linear(flow, made) or (is_other and read_factor(flow, made) is None):
        return None  # what experts give is no sum yet
    mixing = [node for node in list_mixing(flow, heavy, own, routing) if made != node <= end]
    times = "".join(f", × {read_factor(flow, node):g}" for node in factors)
    weighted = ", WEIGHTED BY THE ROUTER" if any(weighs(flow, node, routing) for node in mixing) else ""
    row_added = " + A BIAS" * any(adds_learned_row(flow, node) for node in (made, *mixing))
    label = f"SUM{weighted}{times}{beside}{row_added}"
    head = total = "mixed" if weighted else "summed"
    places = (made, *(node for node in (*mixing, *factors) if node != made))
    drawn.append(Node(total, label, row, BROAD, steps_at(flow, *places), flow.output(made)))
    edges += [Edge(top, total) for top in tops] + [Edge("choice", total)] * bool(weighted)
    if down is not None and up is not None:
        places = (down, *list_norm_of(flow, down, nodes))
        extra = describe_params(flow, *places)
        label = "LINEAR + NORM" if len(places) > 1 else "LINEAR"  # the box is narrow
        drawn.append(Node("down", label, 1, (0.155, 0.3), steps_at(flow, *places), flow.output(down), extra))
        edges += [Edge("down", one.key) for one in drawn if one.key.startswith("expert") and one.surface == "own"]
        extra = describe_params(flow, up)
        drawn.append(Node("up", "LINEAR", row + 1, BROAD, steps_at(flow, up), flow.output(up), extra))
        edges.append(Edge(total, "up"))
        feet, head = [*feet, "down"], "up"
        drawn = [replace(one, place=BESIDE_DOWN) if one.key in ("router", "choice") else one for one in drawn]
    if normed is not None:
        drawn.append(norm_node(flow, normed, row + 1))
        edges.append(Edge(total, "normed"))
        head = "normed"
    if branch.shared and is_apart:
        drawn.append(Node("both", "ADD SHARED EXPERT", row + 2, BROAD, steps_at(flow, end), flow.output(end)))
        edges.append(Edge(head, "both"))
        head = "both"
    if branch.shared:
        place = BESIDE_BOTH if is_waist else BESIDE_ROUTER
        drawn.append(shared_node(flow, parts, aside, place))
        edges += [Edge("shared", head), *([Edge("choice", "shared")] if is_scored else [])]
        routed = BETWEEN if is_waist else BESIDE_SHARED
        narrow = {"router": routed, "choice": routed if is_scored else BESIDE_DOWN if is_waist else FAN}
        drawn = [replace(node, place=narrow.get(node.key, node.place)) for node in drawn]
        feet.append("shared")
    return add_way(flow, found.region, router, routing, Chart(tuple(drawn), tuple(edges), tuple(feet), head))


def norm_node(flow: Flow, norm: Norm, row: int) -> Node:
    """The norm of what the chosen experts give together."""
    places = (norm.end, *(node for node in norm.nodes if node != norm.end))
    extra, steps = describe_params(flow, *places), steps_at(flow, *places)
    return Node("normed", spell_norm(flow, norm), row, MIDDLE, steps, flow.output(norm.end), extra)


def chart_sets(flow: Flow, found: Branching, branch: Experts) -> Chart | None:
    """Several sets of experts side by side, with what every place goes through, and where all meet again."""
    charts: list[Chart] = []
    parting: set[str] = set()
    one: Experts | None = replace(branch, shared=0)
    for region in list_sets(flow, found.region):
        alone = None if one is None else replace(one, others=None)
        chart = None if alone is None else chart_experts(flow, replace(found, branch=alone, region=region))
        picked = find_picked(flow, found.region, list_routers(flow, region.inner)[0])
        parting |= {name_parting(flow, picked[-1])} if picked else {""}
        charts += [] if chart is None else [lead_picked(flow, found, picked, without_fan(chart))]
        one = None if one is None else one.others
    shared = list_shared(flow, found.region.inner, list_routers(flow, found.region.inner)[0])
    charts += [chart_alone(shared_node(flow, shared, 0, BROAD))] if shared else []
    end = found.region.end
    label = f"BOTH PUT TOGETHER{' + SHARED EXPERT' * bool(shared)}"
    name = parting.pop() if len(parting) == 1 else ""
    told = (PARTED.format(name=name),) if name else ()
    both = Node("both", label, 0, BROAD, steps_at(flow, end), flow.output(end), told=told)
    return stack_charts(join_beside(charts), chart_alone(both))


def lead_picked(flow: Flow, found: Branching, picked: Sequence[int], chart: Chart) -> Chart:
    """The chart of a set of experts above a box that says how many of all rows it is given."""
    if not picked:
        return chart
    out = flow.output(picked[0])
    some, many = prod(out.shape[:-1]), prod(flow.output(found.region.end).shape[:-1])
    node = Node("picked", f"{some:,} OF {many:,} ROWS", 0, MIDDLE, steps_at(flow, *picked), out)
    return stack_charts(chart_alone(node), chart)


def without_fan(chart: Chart) -> Chart:
    """The chart of experts without a box for each of them: where sets stand side by side there is no room."""
    fan = {node.key for node in chart.nodes if node.key.startswith("expert")}
    before = next((edge.source for edge in chart.edges if edge.target in fan), None)
    after = next((edge.target for edge in chart.edges if edge.source in fan), None)
    if before is None or after is None:
        return chart
    row = next(node.row for node in chart.nodes if node.key in fan)
    edges = [edge for edge in chart.edges if fan.isdisjoint((edge.source, edge.target))]
    nodes = [replace(node, row=node.row - (node.row > row)) for node in chart.nodes if node.key not in fan]
    return replace(chart, nodes=tuple(nodes), edges=(*edges, Edge(before, after)))


def list_of_each(flow: Flow, heavy: Sequence[int], nodes: Collection[int], branch: Experts) -> list[int]:
    """The steps within each expert that its box stands for: how numbers are bent, and the product with the gate."""
    return list_bent(flow, [node for node in sorted(nodes) if heavy[0] < node < heavy[-1]], branch)


def tell_together(params: int, experts: int) -> str:
    """How many parameters so many experts have together."""
    return f"{plural(params, 'parameter')}{' in all' * (experts > 1)}"


def list_apart(flow: Flow, nodes: Collection[int], branch: Experts) -> list[int]:
    """The steps of experts that are worked out one after the other: their products, and how numbers are bent."""
    products = [node for node in sorted(nodes) if is_linear(flow, node) or is_product(flow, node)]
    inner = [node for node in sorted(nodes) if products and products[0] < node < products[-1]]
    return sorted({*products, *list_bent(flow, inner, branch)})


def list_bent(flow: Flow, inner: Sequence[int], branch: Experts) -> list[int]:
    """The steps among some by which numbers are bent or held between bounds, and the products with a gate."""
    gates = [node for node in inner if is_product_of_two(flow, node)] if branch.gated else []
    held = {node for gate in gates if (found := find_held(flow, gate, inner)) is not None for node in found.nodes}
    return sorted({*list_bending(flow, inner, branch.activation), *gates, *held})


def tell_held_gate(flow: Flow, steps: Collection[Step], nodes: Collection[int], branch: Experts) -> tuple[str, ...]:
    """What holds the factors of the gate in each expert, whose box stands for some steps."""
    gates = [place for step in steps if is_product_of_two(flow, place := flow.places[step.id])] if branch.gated else []
    held = find_held(flow, max(gates), nodes) if gates else None
    return () if held is None else held.told


def weights_of(flow: Flow, node: int) -> str:
    sizes = [
        record.shape for record in flow.steps[node].inputs if record.role == "parameter" and len(record.shape) == 2
    ]
    return f"{sizes[0][0] * sizes[0][1]:,} parameters" if sizes else ""


def count_stacked(flow: Flow, node: int, count: int) -> int:
    """How many weights all experts have there together, with the biases that are added to what is made."""
    stacks = [shape for shape in list_held_shapes(flow, node, list_reading_data(flow)) if shape[0] == count]
    adds = (reader for reader in flow.readers.get(node, ()) if flow.op(reader) in SUMS)
    picks = [maker for add in adds for maker in flow.makers[add] if maker is not None and maker != node]
    shapes = (one.shape for pick in picks for one in flow.steps[pick].inputs if one.role == "parameter")
    biases = sum(prod(shape) for shape in shapes if len(shape) == 2 and shape[0] == count)
    return sum(map(prod, stacks)) + biases
