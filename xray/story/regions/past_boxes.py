"""What is learned on the way from box to box and stands in none, told where a box reads what another tower made."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from string import digits

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS
from xray.story.charts.chart import Chart
from xray.story.exits.meeting_chart import key_meeting
from xray.story.recognition.between import is_linear
from xray.story.sentences.of_parts import PAST
from xray.story.sheet.columns import Column
from xray.story.wording import plural


def tell_boxless(columns: Sequence[Column]) -> list[Column]:
    """The columns, whose boxes that read other towers say past how many learned layers in no box they do so.

    So the four maps of LW-DETR's eye are made one before its decoder looks at them.
    """
    drawn, found = list_drawn(columns), []
    for column in columns:
        flow, towers = column.reading.flow, column.reading.towers
        held = (staging.nodes for one in towers for staging in one.stagings)
        boxed = {flow.places[one] for one in drawn[id(flow)] if one in flow.places}  # a cache is of passes before too
        free = set(range(len(flow.steps))).difference(*held, boxed)
        leaving = None if column.exit is None else tell_past(flow, column.exit, free)
        frames = []
        for frame in column.frames:
            panels = (replace(panel, chart=tell_past(flow, panel.chart, free)) for panel in frame.panels)
            frames.append(replace(frame, panels=tuple(panels)))
        found.append(replace(column, exit=leaving, frames=tuple(frames)))
    return found


def tell_past(flow: Flow, chart: Chart, free: Collection[int]) -> Chart:
    """The chart whose boxes that read other towers say past how many convolutions and linear layers they do so.

    `free` are the steps that stand in no box and no layer.
    """
    nodes = []
    for node in chart.nodes:
        is_led = node.key in chart.memory or node.key.startswith(key_meeting(""))
        own = [flow.places[step.id] for step in node.steps if is_led and step.id in flow.places]
        made = [maker for place in own for maker in flow.makers[place] if maker is not None]
        way = flow.behind(*made, within=free.__contains__)
        learned = [one for one in way if flow.steps[one].params and flow.is_leaf(one)]
        finders = [one for one in learned if flow.op(one) in FINDINGS]
        linear = [one for one in learned if one not in finders and is_linear(flow, one)]
        counts = ((len(finders), "convolution"), (len(linear), "linear layer"))
        told = " and ".join(plural(count, one) for count, one in counts if count)
        nodes.append(replace(node, told=(*node.told, PAST.format(layers=told))) if told else node)
    return replace(chart, nodes=tuple(nodes))


def list_drawn(columns: Sequence[Column]) -> dict[int, set[str]]:
    """The steps that stand in boxes of each pass, by their ids; what is given to a box belongs to its reader."""
    found: dict[int, set[str]] = {}
    for phase in (phase for column in columns for phase in column.phases):
        panels = [panel for frame in phase.frames for panel in frame.panels if panel.is_open]
        charts = [*(panel.chart for panel in panels), *(frame.bridge for frame in phase.frames), phase.entrance]
        charts += [frame.corrected for frame in phase.frames]
        nodes = (node for chart in (*charts, phase.exit, phase.condition) if chart is not None for node in chart.nodes)
        held = {step.id for node in nodes if node.key.rstrip(digits) != "given" for step in node.steps}
        found.setdefault(id(phase.reading.flow), set()).update(held)
    return found


def list_leaving(columns: Sequence[Column]) -> dict[int, set[int]]:
    """The steps of entrances of each pass that lead from the end of another tower to boxes of its exit: they are its.

    So zeros are put before what the last convolution of an encoder reads, and a decoder begins with what that gives.
    What leads to nothing else goes with them, as what a batch norm of kept numbers multiplies by.
    """
    found: dict[int, set[int]] = {}
    phases = [phase for column in columns for phase in column.phases]
    for phase in phases:
        flow, towering = phase.reading.flow, phase.towering
        steps = [step.id for node in (phase.exit.nodes if phase.exit else ()) for step in node.steps]
        boxes = {flow.places[one] for one in steps if one in flow.places}
        others = [one.towering for one in phases if one.reading.flow is flow and one.towering is not towering]
        ways = (flow.behind(*boxes & one.entrance, within=one.entrance.__contains__) for one in others)
        leading = {*chain(*ways)}
        own = leading.intersection(flow.ahead(towering.chains[-1].end))
        for node in sorted(leading - own, reverse=True):
            own |= {node} if own.issuperset(flow.leaf_readers(node)) else set()
        found.setdefault(id(flow), set()).update(own)
    return found
