"""The boxes of rows that a part of a layer works on alone: where they are taken, and where others stand beside them."""

from xray.ir.flow.dataflow import Flow
from xray.story.anatomy.branches import Unknown
from xray.story.body.stages import Staging
from xray.story.charts.chart import (
    BROAD,
    MIDDLE,
    Chart,
    Node,
    add_above,
    chart_alone,
    describe_params,
    stack_charts,
    steps_at,
)
from xray.story.charts.stage_names import name_branch
from xray.story.entrance.cut_rows import label_cut_rows
from xray.story.sentences.of_rows import OtherRows, describe_others
from xray.story.streams.rejoined_rows import RejoinedRows

TAKEN, REJOINED = "taken", "rejoined"
"""The keys of the boxes of rows that are taken, and of all rows end to end again."""


def add_parted(flow: Flow, staging: Staging, chart: Chart) -> Chart:
    """The chart of a stage with the rows that it alone works on below it, and all rows end to end again above it."""
    if staging.taken is not None:
        cut = staging.taken
        node = Node(TAKEN, label_cut_rows(flow, cut), 0, MIDDLE, steps_at(flow, cut), flow.output(cut))
        chart = stack_charts(chart_alone(node), chart)
    return chart if staging.rejoined is None else add_above(chart, draw_rejoined(flow, staging, staging.rejoined))


def name_parted(flow: Flow, staging: Staging, name: str) -> str:
    """What a stage is called that works on some rows alone, and behind which others may stand beside these."""
    told = "" if staging.taken is None else f" OF {label_cut_rows(flow, staging.taken)}"
    return f"{name}{told}" + ("" if staging.rejoined is None else f", {staging.rejoined.count:,} BESIDE")


def draw_rejoined(flow: Flow, staging: Staging, rows: RejoinedRows) -> Node:
    """The box in which rows that went two ways are end to end again; it stands for the way that has no other box."""
    others = staging.stage.others or ()
    names = (
        None if any(isinstance(one, Unknown) for one in others) else tuple(name_branch(one).lower() for one in others)
    )
    told = describe_others(OtherRows(rows.count, rows.in_front, names))
    label = "END TO END: " + " + ".join(f"{record.shape[1]:,}" for record in flow.steps[rows.join].inputs)
    leaves = [node for node in sorted(rows.nodes - {rows.join}) if flow.is_leaf(node)]
    extra = describe_params(flow, *leaves)
    steps = steps_at(flow, rows.join, *leaves)
    out = flow.output(rows.join)
    return Node(REJOINED, label, 0, BROAD, steps, out, extra, outline="boundary", told=(told,))
