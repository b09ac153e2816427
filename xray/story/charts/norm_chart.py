"""The chart of a norm before or behind branches, of one for several of them, and of its gate."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CLAMPS, SIDE_BY_SIDE, SUMS
from xray.story.anatomy.attentions import Looking
from xray.story.anatomy.branches import (
    Experts,
)
from xray.story.anatomy.tree import Norm as NormFacts
from xray.story.body.stages import Branching, Staging
from xray.story.branches.rows import count_of_before
from xray.story.charts.chart import (
    BROAD,
    MIDDLE,
    Chart,
    Node,
    chart_alone,
    stack_charts,
    steps_at,
)
from xray.story.charts.counted_weights import describe_params, steps_with_block
from xray.story.charts.norms_apart import chart_joined
from xray.story.charts.steps.operation_labels import WEIGHED_FIRST, name_factors, tell_groups
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.passages.modulation import list_modulation
from xray.story.passages.norm_factors import list_own_gate
from xray.story.recognition.between import strip_plain
from xray.story.recognition.norms import Norm, find_norm, is_parted, is_weighed_twice, name_norm, spell_norm
from xray.story.sentences.of_parts import describe_box


def list_begun_norm(flow: Flow, found: Branching) -> set[int]:
    """The last steps of a norm in which a branch begins: the stream before it ends with the norm, and shows it."""
    norms = (find_norm(flow, node) for node in found.region.inner)
    return {node for norm in norms if norm is not None and found.region.start in norm.nodes for node in norm.nodes}


def chart_gate(flow: Flow, gate: int) -> Chart:
    """A gate at the end of a branch as a chart of its own."""
    node = Node("gated", "× GATE", 0, BROAD, steps_at(flow, gate), flow.output(gate))
    return chart_alone(node)


def is_opening(flow: Flow, norm: Norm, staging: Staging) -> bool:
    """Whether a norm stands at the beginning of the branches, be other rows, or none, put to the stream before."""
    start = staging.joints[0].stream
    inside = any(norm.end in joint.region.inner for joint in staging.joints)
    origin = strip_plain(flow, norm.origin)
    if not inside or origin == start or origin is None or origin not in staging.joints[0].region.inner:
        return inside
    is_bare = flow.op(origin) in SIDE_BY_SIDE and sum(bool(prod(one.shape)) for one in flow.steps[origin].inputs) == 1
    return is_bare or count_of_before(flow, origin) > 0 or chart_joined(flow, staging, norm) is not None


def join_norms(norms: list[Norm]) -> list[Norm]:
    """One norm for several that are the same up to where each branch multiplies it by a number (Falcon-H1)."""
    common = set[int].intersection(*(set(norm.nodes) for norm in norms)) if len(norms) > 1 else set[int]()
    return [replace(norms[0], end=max(common), nodes=tuple(sorted(common)))] if common else norms


def chart_norm(flow: Flow, norm: Norm, key: str, wide: bool) -> Chart:
    """A norm as a chart of its own."""
    extra = describe_params(flow, norm.end, *norm.nodes)
    kind = name_norm(flow, norm)
    first = WEIGHED_FIRST * norm.weighs_first
    label = f"{first}{spell_norm(flow, norm)}{tell_groups(flow, norm)}" if kind else "NORM"
    label += " × LEARNED NUMBERS" * is_weighed_twice(flow, norm)
    label += name_factors(flow, norm) if key == "opening" else ""  # behind a branch it has a box of its own
    label = f"{label}, ITS OWN FOR EACH OF TWO KINDS OF ROWS" if is_parted(flow, norm) else label
    modulation = list_modulation(flow, norm)
    if modulation:
        label = f"{label}, {name_modulation(flow, modulation)}"
    clamped = [norm.origin] if key == "opening" and norm.origin is not None and flow.op(norm.origin) in CLAMPS else []
    node = Node(
        key,
        f"CLAMP + {label}" if clamped else label,
        0,
        (0.5, 0.4) if wide else BROAD if modulation else MIDDLE,
        steps_at(flow, *reversed(modulation), norm.end, *(node for node in norm.nodes if node != norm.end), *clamped),
        flow.output(modulation[-1] if modulation else norm.end),
        extra,
        describe_box("norm", NormFacts(kind, None, adaptive=bool(modulation))),
    )
    return chart_alone(node)


def chart_own_gate(flow: Flow, staging: Staging, norm: Norm, chart: Chart) -> Chart:
    """The chart above the gate by which what its norm makes is multiplied, where there is one."""
    gate = list_own_gate(flow, norm, staging.joints[-1].region.inner)
    if not gate or not all(isinstance(one.branch, Looking | Experts) for one in staging.branches):
        return chart
    below = chart_operations(flow, gate, gate[-1], {gate[-1]: "× GATE"}, "own", begins=[norm.end])
    return chart if below is None else stack_charts(below, chart)


def name_modulation(flow: Flow, modulation: Sequence[int]) -> str:
    """What is done to what a norm makes, by what stands beside it."""
    told = ["SHIFTED" if flow.op(node) in SUMS else "SCALED" for node in modulation]
    return " AND ".join(dict.fromkeys(told))


def hold_modulation(flow: Flow, chart: Chart, norm: Norm | None, modulation: Sequence[int]) -> Chart:
    """The chart with the steps that scale and shift what a norm makes in the box of that norm, in their order."""
    told = steps_at(flow, *modulation)
    own = None if norm is None else flow.steps[norm.end]

    def hold(node: Node) -> Node:
        before = tuple(step for step in node.steps if step not in told)
        return replace(node, steps=(*before, *told)) if own in node.steps else node

    return replace(chart, nodes=tuple(map(hold, chart.nodes))) if told else chart


def draw_inner_norm(flow: Flow, norm: Norm, row: int) -> Node:
    """A norm inside a branch, before the linear layer that leads back."""
    steps = steps_with_block(flow, norm.end, *(node for node in reversed(norm.nodes) if node != norm.end))
    extra = describe_params(flow, norm.end, *norm.nodes)
    return Node("inner", spell_norm(flow, norm), row, BROAD, steps, flow.output(norm.end), extra)
