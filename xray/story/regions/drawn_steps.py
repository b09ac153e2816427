"""Which steps stand in boxes, and which of entrances belong to the exit of another tower."""

from collections.abc import Sequence
from itertools import chain
from string import digits

from xray.story.sheet.columns import Column


def list_drawn(columns: Sequence[Column]) -> dict[int, set[str]]:
    """The steps that stand in boxes of each pass, by their ids; what is given to a box belongs to its reader."""
    found: dict[int, set[str]] = {}
    for phase in (phase for column in columns for phase in column.phases):
        nodes = (node for chart in phase.charts for node in chart.nodes)
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
