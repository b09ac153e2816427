"""Boxes that lead to a tower from others, in the colour of what they are: of that tower, or of none."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DROPOUTS
from xray.story.body.towers import Towering
from xray.story.charts.chart import Chart, Node
from xray.story.entrance.turned_rows import list_tables
from xray.story.passages.homes import find_homes, list_holders, read_leading
from xray.story.recognition.between import list_reading_data


def paint_led(
    flow: Flow, towering: Towering, towers: Collection[Towering], charts: Iterable[Chart | None], *, has_own: bool
) -> list[Chart | None]:
    """Charts of a tower, with the boxes that lead there from other `towers` as these, or as none.

    Those of a tower of the same colour stay as they are, unless the tower itself `has_own` one. Rows are of none too
    where the tower's own ids say by how much they are turned (Music Flamingo).
    """
    leading = read_leading(flow, towering, towers)
    theirs, between = (frozenset[int]().union(*some.values()) for some in (leading.inside, leading.between))
    theirs |= {rows.source for rows in towering.added}
    between |= list_led_between(flow, towering, towers) - theirs
    places, data, entrance = flow.places, list_reading_data(flow), towering.entrance
    aside = list_tables(flow, entrance) | list_alone(flow, between, entrance) if between else set[int]()

    def paint(chart: Chart | None) -> Chart | None:
        if chart is None or not theirs | between:
            return chart
        nodes: list[Node] = []
        for node in chart.nodes:
            own = {places[step.id] for step in node.steps if step.op not in DROPOUTS}
            worked = own & data - aside
            if own and own <= theirs and node.surface == "own" and has_own:
                node = replace(node, surface="memory")
            elif own & between and worked <= theirs | between and node.surface == "own":
                node = replace(node, surface="ghost")
            nodes.append(node)
        apart = {one.key for one in nodes if one.steps and data.isdisjoint(places[step.id] for step in one.steps)}
        return paint_fed(replace(chart, nodes=tuple(nodes)), apart)

    return [paint(chart) for chart in charts]


def list_led_between(flow: Flow, towering: Towering, towers: Collection[Towering]) -> frozenset[int]:
    """What works out rows of other towers that are added between layers of one, and stands in no tower's block."""
    nodes = {node for rows in towering.added for node in rows.nodes}
    homes = find_homes(flow, towers) if nodes else {}
    return frozenset(node for node in nodes if not list_holders(flow, homes, node))


def list_alone(flow: Flow, nodes: Collection[int], entrance: Collection[int]) -> set[int]:
    """What some steps alone read that stands before a tower's entrance: a comparison behind what they come from."""
    made = {maker for node in nodes for maker in flow.makers[node] if maker is not None and maker not in entrance}
    readers = {one: flow.leaf_readers(one) for one in made}
    return {one for one in made if {*nodes}.issuperset(readers[one])}


def paint_fed(chart: Chart, apart: Collection[str]) -> Chart:
    """The chart, with boxes among some that work on no data, and lead to boxes of no tower alone, as such too.

    So places are added to what one tower gives another (Florence-2).
    """
    ghosts = {node.key for node in chart.nodes if node.surface == "ghost"}
    for node in sorted(chart.nodes, key=lambda one: -one.row):  # what is led in from the foot may be listed last
        targets = {edge.target for edge in chart.edges if edge.source == node.key}
        ghosts |= {node.key} if node.key in apart and targets and targets <= ghosts else set()
    return replace(
        chart, nodes=tuple(replace(one, surface="ghost") if one.key in ghosts else one for one in chart.nodes)
    )


def end_in_moves(flow: Flow, chart: Chart, end: int, nodes: Collection[int]) -> Chart:
    """The chart that ends in the box of moves through which all that its last step makes goes (rows of a mask)."""
    left = {edge.source for edge in chart.edges}
    tops = [node for node in chart.nodes if node.key not in left]
    moved = [flow.carried_from(flow.places.get(step.id)) for node in tops for step in node.steps[:1]]
    is_alone = len(tops) == 1 and moved == [end] and {*nodes}.issuperset(flow.leaf_readers(end))
    return replace(chart, head=tops[0].key) if is_alone else chart
