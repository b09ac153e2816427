"""What happens at each station of a sheet, from the bottom up, and what leaves a tower at the last one."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CHANCE, DROPOUTS, FINDINGS, LOSSES, SIDE_BY_SIDE, TRANSPOSED
from xray.ir.trace import Step, Trace
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.tree import Anatomy, Stage
from xray.story.body.ends import holds_head
from xray.story.charts.chart import Chart
from xray.story.exits.loss_chart import ONE_NUMBER, PICKS
from xray.story.exits.meeting_chart import count_met
from xray.story.facts.unsaid import follow, is_lost
from xray.story.passages.pools import is_pool
from xray.story.recognition.between import read_sizes
from xray.story.regions.flanked import is_flanked, what_loops
from xray.story.sentences.of_ends import Leaving, describe_again, describe_entrance, describe_exit
from xray.story.sentences.stations.of_stages import describe_stage
from xray.story.sentences.stations.of_stations import EACH_ALONE, SOME_ALONE
from xray.story.sheet.columns import Column, list_links
from xray.story.sheet.planning import Panel
from xray.story.sheet.stand_ins import is_of_some


def list_stations(trace: Trace, columns: Sequence[Column], anatomy: Anatomy) -> tuple[tuple[int, str], ...]:
    """The stations with what happens at each."""
    found: list[tuple[int, str]] = []
    memories = {link.source for link in list_links(columns, anatomy.links) if link.kind == "memory"}
    for column in columns:
        tower = column.towering.tower
        if column.is_first:
            reads = [phase.words for phase in column.phases if phase.words is not None]
            found.append((column.first_station, describe_entrance(tower, reads)))
        parts = [one for one in columns if one.name == column.name]
        closed = [told_of(one) for part in parts for one in list_panels(part) if not one.is_open]
        opened = [panel for panel in list_panels(column) if panel.is_open]
        found += [(panel.station, describe_panel(column, panel, closed)) for panel in opened]
        if column.name in memories and found and column.words is not None:
            number, text = found[-1]
            found[-1] = (number, text.removesuffix(".") + ": the memory.")
        if column.last_station and column.is_last:
            found.append((column.last_station, describe_exit(what_leaves(anatomy, column))))
    again = describe_again(what_loops(trace, columns[-1])) if is_flanked(columns) else ""
    if again:
        found.append((columns[-1].last_station + 1, again))
    return tuple(sorted(found))


def describe_panel(column: Column, panel: Panel, closed: Sequence[Stage]) -> str:
    """What happens at the station of a panel; a feed-forward may take some places alone (XCiT's class row)."""
    told = describe_stage(column.towering.tower, told_of(panel), closed)
    return told.replace(EACH_ALONE, SOME_ALONE) if is_of_some(column.reading.flow, panel.staging) else told


def list_panels(column: Column) -> list[Panel]:
    return [panel for frame in column.frames for panel in frame.panels]


def told_of(panel: Panel) -> Stage:
    """The stage of a panel; where a softmax of its attention stands in no box, nothing is said of what it looks at."""
    stage = panel.staging.stage
    branches = (
        Attention(one.source, one.heads, one.kv_heads, one.d_k, one.d_v) if isinstance(one, Attention) else one
        for one in stage.branches
    )
    return replace(stage, branches=tuple(branches)) if panel.leaves_out else stage


def what_leaves(anatomy: Anatomy, column: Column) -> Leaving:
    """What comes out of a tower: that of its phase that chooses a word, where one does."""
    charts = [phase.exit for phase in column.phases if phase.exit is not None]
    is_told = len(anatomy.towers) == 1 or holds_head(column.reading.flow, column.reading.towers, column.towering)
    lasts = [(chart, step) for chart in charts if (step := last_step(chart)) is not None and step.op in PICKS]
    picking = next((chart for chart, step in lasts if chooses_one(step)), None)
    nodes = sorted(picking.nodes, key=lambda node: node.row) if picking is not None else []
    picked = None if picking is None else picking.node(picking.head).record
    head = anatomy.head if is_told else None
    has_loss = any(node.key == "targets" for chart in charts for node in chart.nodes)
    to_one = any(node.label == ONE_NUMBER for chart in charts for node in chart.nodes)
    if (
        head
        and head.size
        and not to_one
        and not leaves_whole(column.reading.flow, column.towering.end, head.size, has_loss=has_loss)
    ):
        head = None  # something else comes out, or is compared with the target, that is made of its numbers
    return Leaving(
        tuple(node.steps[0].op for node in nodes),
        head,
        has_loss,
        column.towering.tower.vocab,
        any(node.key.startswith("wave") for chart in charts for node in chart.nodes),
        picked is not None and any(size > 1 for size in picked.shape[1:]),
        max((count_met(chart.nodes) for chart in charts), default=0),
        any(node.surface == "condition" for chart in charts for node in chart.nodes),
        count_made(column.reading.flow, charts),
        tuple(link.source for link in anatomy.links if (link.kind, link.target) == ("met", column.name)),
        bool(charts) and all(leads_nowhere(column.reading.flow, chart) for chart in charts),
        bool(charts) and all(changes_again(column, chart) for chart in charts),
        any(draws_by_chance(column, chart) for chart in charts),
        to_one,
    )


def leaves_whole(flow: Flow, end: int, size: int, *, has_loss: bool) -> bool:
    """Whether so many numbers, made behind a stream's end, are handed out, held to a target or chosen of.

    A single one may be so without an axis of its own, and several cut in parts, one axis behind the other (Dia).
    """
    results = flow.one_pass.results
    ahead = [one for one in flow.ahead(end) if flow.is_leaf(one)]
    handed = [flow.output(one).shape for one in ahead if flow.steps[one].id in results and flow.steps[one].outputs]
    last = LOSSES | PICKS if has_loss else PICKS
    handed += [record.shape for one in ahead if flow.op(one) in last for record in flow.steps[one].inputs[:2]]
    rows = flow.output(end).shape
    alone = {rows[:count] for count in range(1, len(rows))} if size == 1 else {(size,)}
    parts = {prod(shape[count:]) for shape in handed for count in range(1, len(shape))}
    return size in parts or any(size in shape[1:] or shape in alone for shape in handed)


def chooses_one(step: Step) -> bool:
    """Whether a step chooses one of each row, be it by chance, and that is no place of a row."""
    is_place = any((axis or "").endswith("_len") for axis in step.inputs[0].axes[-1:])
    return not is_place and (step.op != "multinomial" or step.outputs[0].shape[-1:] == (1,))


def last_step(chart: Chart) -> Step | None:
    """The step that an exit ends in; None where that stands in a box below, the last one naming what it meets."""
    return next(iter(chart.node(chart.head).steps), None)


def draws_by_chance(column: Column, chart: Chart) -> bool:
    """Whether numbers that are drawn by chance behind the last layer go into boxes of an exit (VITS)."""
    flow = column.reading.flow
    boxed = {flow.places[step.id] for node in chart.nodes for step in node.steps if step.id in flow.places}
    behind = range(column.towering.last_layer + 1, len(flow.steps))
    drawn = [node for node in behind if flow.op(node) in CHANCE and flow.output(node).is_float and node not in boxed]
    return not boxed.isdisjoint(flow.ahead(*drawn))


def leads_nowhere(flow: Flow, chart: Chart) -> bool:
    """Whether nothing reads what an exit makes last, and the model does not hand it out (the pooler in LFM2-VL)."""
    last = last_step(chart)
    made = None if last is None else flow.carried_from(flow.places.get(last.id))  # a cast may change nothing
    return made is not None and is_lost(flow, made) and not follow(flow, made)[1]


def changes_again(column: Column, chart: Chart) -> bool:
    """Whether what an exit makes last goes into more steps, and neither into another tower nor out of the model."""
    flow, last = column.reading.flow, last_step(chart)
    place = None if last is None else flow.places.get(last.id)
    if place is None or len(chart.heads) > 1:
        return False
    moved, readers = follow(flow, place, CARRYING | DROPOUTS | SIDE_BY_SIDE | {"stack"})
    boxed = {step.id for node in chart.nodes for step in node.steps}
    if any(flow.steps[one].id in boxed for one in readers):  # beside its other heads (YOLOS)
        return False
    others = set().union(*(one.nodes for one in column.reading.towers if one.end != column.towering.end))
    is_out = not flow.one_pass.results.isdisjoint(flow.steps[one].id for one in moved)
    return bool(readers) and not is_out and others.isdisjoint(flow.ahead(*readers))


def count_made(flow: Flow, charts: Sequence[Chart]) -> int:
    """How many places of a row transposed convolutions make of each, one above the other; 1 where none does.

    Nothing is told where steps make fewer of them again, as those that keep a bend from folding over (NeuCodec).
    """
    steps = [(node, step) for chart in charts for node in chart.nodes for step in node.steps]
    raising = [(node, step) for node, step in steps if step.op in TRANSPOSED]
    strides = [read_sizes(flow, flow.places[step.id], "stride") for _, step in raising if step.id in flow.places]
    are_rows = len(strides) == len(raising) and all(len(one) == 1 for one in strides)
    are_rows &= not any(makes_fewer(flow, step) for _, step in steps)
    return prod(one for (one,) in strides) if are_rows and len({node.row for node, _ in raising}) == len(raising) else 1


def makes_fewer(flow: Flow, step: Step) -> bool:
    """Whether a step makes one place of several: a convolution that takes longer steps, or a pool."""
    place = flow.places.get(step.id)
    if place is None or step.op in TRANSPOSED:
        return False
    return is_pool(flow, place) or (step.op in FINDINGS and max(read_sizes(flow, place, "stride"), default=1) > 1)
