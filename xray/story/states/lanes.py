"""The rows of a state's chart where queries, keys and values stand in lanes of their own, as in an attention."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.charts.chart import RIGHT_HALF, Chart, Place
from xray.story.charts.steps.operations_chart import cut_row, spread


def lay_lanes(flow: Flow, chart: Chart, lanes: Mapping[int, Place]) -> Chart:
    """The chart with the boxes of some steps in their lanes, and no others beside these.

    What leads to them, and what is worked out apart from them, stands below, on the right where it stands alone; all
    else that reads them above. The same chart where none of its boxes has a lane.
    """
    places = {node.key: flow.places[node.steps[0].id] for node in chart.nodes if node.steps}
    laned = {key: lanes[place] for key, place in places.items() if place in lanes}
    if not laned:
        return chart
    keys = {place: key for key, place in places.items()}
    level = find_levels(chart, laned)
    feeding, lowest = list_feeding(chart, laned), min(level[key] for key in laned)
    placed: dict[str, tuple[int, Place]] = {}
    row = 0
    for number in sorted(set(level.values())):
        held = [key for key in places if level[key] == number]
        own = [key for key in held if key in laned]
        placed |= {key: (row, laned[key]) for key in own}
        row += bool(own)
        others = sorted(places[key] for key in held if key not in laned)
        for line in cut_row(flow, others) if others else []:
            is_apart = len(line) == 1 and keys[line[0]] not in feeding and number < lowest
            spots = [RIGHT_HALF] if is_apart else [spread(here, len(line)) for here in range(len(line))]
            placed |= {keys[place]: (row, spot) for place, spot in zip(line, spots, strict=True)}
            row += 1
    nodes = (replace(node, row=placed[node.key][0], place=placed[node.key][1]) for node in chart.nodes)
    return replace(chart, nodes=tuple(sorted(nodes, key=lambda node: (node.row, node.place))))


def find_levels(chart: Chart, laned: Collection[str]) -> dict[str, int]:
    """How far up each box stands: below all lanes what does not read them, and above these what does."""
    makers = {node.key: [edge.source for edge in chart.edges if edge.target == node.key] for node in chart.nodes}
    order = sort_up(makers)
    above = set(laned)
    for key in order:
        above |= {key} if not above.isdisjoint(makers[key]) else set()
    level: dict[str, int] = {}
    for key in order:
        if key not in above:
            level[key] = max((level[one] + 1 for one in makers[key]), default=0)
    floor = max(level.values(), default=-1) + 1
    for key in order:
        if key in laned:
            level[key] = max((level[one] + 1 for one in makers[key] if one in laned), default=floor)
    top = max(level[key] for key in laned) + 1
    for key in order:
        if key in above and key not in laned:
            level[key] = max((top, *(level[one] + 1 for one in makers[key])))
    return level


def list_feeding(chart: Chart, laned: Collection[str]) -> set[str]:
    """The boxes that lead to the lowest ones of the lanes, these included."""
    found: set[str] = set()
    todo = [key for key in laned if not any(edge.target == key and edge.source in laned for edge in chart.edges)]
    while todo:
        found.add(key := todo.pop())
        todo += [edge.source for edge in chart.edges if edge.target == key and edge.source not in found]
    return found


def sort_up(makers: Mapping[str, Collection[str]]) -> list[str]:
    """The boxes in an order in which each stands behind all that it reads."""
    order: list[str] = []
    while len(order) < len(makers):
        order += [key for key in makers if key not in order and set(makers[key]) <= {*order, key}]
    return order
