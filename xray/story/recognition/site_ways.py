"""Axes followed along an attention: back to the stream, and on from the scores to the output."""

from collections.abc import Sequence

from xray.ir.trace import Step
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.axis_tracking import Axes, back, forth, whole
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operand_ways import Way
from xray.story.recognition.operation_kinds import CARRYING, JOINS, SHAPING, SUMS
from xray.story.recognition.projections import data_input
from xray.story.recognition.softmax_axis import read_equation
from xray.story.recognition.way_parts import WayPart, cut_way


def follow_way(flow: Flow, way: Way, axes: Axes, made: dict[int, Axes], *, is_key: bool) -> Axes | None:
    """The axes back along a way to the stream; what each step made on the way is noted."""
    here: Axes | None = axes
    for part in reversed(cut_way(flow, way, shared=False, is_key=is_key, d_k=0)):
        for node in reversed(part.nodes):
            step = flow.steps[node]
            if here is None:
                return None
            shape = tuple(size_of_axis(axis) for axis in here)
            if shape in [record.shape for record in step.outputs]:
                made.setdefault(node, here)
            if node == way.projection:
                return follow_entry(flow, node, here)
            if step.op in SUMS or adds_nothing(step):
                continue
            if part.kind not in ("project", "split", "turn") and node <= last_change(flow, part):
                if node == part.nodes[0] and part.kind in ("repeat", "cache"):
                    label = "kv_heads" if part.kind == "repeat" else "new"
                    here = ungrow(flow, way, part.nodes, here, label)
                continue
            here = back(step, here)
    return None


def last_change(flow: Flow, part: WayPart) -> int:
    """The last step of a part that does more than move numbers; of a repeat all of it."""
    if part.kind == "repeat":
        return part.nodes[-1]
    return max((node for node in part.nodes if flow.op(node) not in CARRYING), default=part.nodes[0] - 1)


def adds_nothing(step: Step) -> bool:
    """Whether a step joins a tensor to nothing."""
    return step.op in JOINS and any(0 in record.shape for record in step.inputs)


def ungrow(flow: Flow, way: Way, nodes: Sequence[int], axes: Axes, label: str) -> Axes | None:
    """The axes before heads were repeated, or earlier keys joined: the same but for the one that grew."""
    before = next((record.shape for record, maker in flow.given(nodes[0]) if maker in way.nodes), ())
    if len(before) != len(axes):
        return None
    return tuple(
        axis if size_of_axis(axis) == size else whole(label, size) for axis, size in zip(axes, before, strict=True)
    )


def follow_entry(flow: Flow, projection: int, axes: Axes) -> Axes | None:
    """The axes of what a projection reads, back to where the stream was made."""
    number = data_input(flow, projection)
    if number is None:
        return None
    record, maker = flow.steps[projection].inputs[number], flow.makers[projection][number]
    if len(record.shape) != len(axes):
        return None
    here: Axes | None = (*axes[:-1], whole("d_model", record.shape[-1]))
    while here is not None and maker is not None and flow.op(maker) in SHAPING and flow.makers[maker]:
        here = back(flow.steps[maker], here)
        maker = flow.makers[maker][0]
    return here


def follow_scores(flow: Flow, site: Site, scores: Axes, made: dict[int, Axes]) -> None:
    """The axes from the scores on to the weights; what keeps their shape keeps their axes."""
    here: Axes | None = scores
    for node in (*site.scored, *site.weighed):
        step = flow.steps[node]
        if here is None or not step.outputs:
            return
        if step.outputs[0].shape != tuple(size_of_axis(axis) for axis in here):
            here = forth(step, here)
        if here is not None:
            made[node] = here


def follow_result(flow: Flow, site: Site, value: Axes, made: dict[int, Axes]) -> None:
    """The axes from the weighted sum on to the output projection."""
    product = flow.steps[site.weighted_sum]
    rank = len(product.outputs[0].shape)
    if read_equation(product) is not None or rank != len(value):
        return
    queries = whole("queries", product.outputs[0].shape[-2])
    here: Axes | None = (*value[:-2], queries, value[-1])
    made[site.weighted_sum] = here if here is not None else ()
    for node in site.concat:
        here = None if here is None else forth(flow.steps[node], here)
        if here is None:
            return
        made[node] = here


def size_of_axis(axis: Sequence[tuple[str, int]]) -> int:
    product = 1
    for _, size in axis:
        product *= size
    return product
