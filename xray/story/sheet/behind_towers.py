"""What stands behind the layers of several towers: finer maps, and steps of other towers that lead there."""

from dataclasses import replace

from xray.ir.flow.remembering import once, once_for
from xray.story.body.links import list_meetings
from xray.story.body.reading import Reading
from xray.story.body.towers import Towering
from xray.story.charts.chart import Chart
from xray.story.exits.behind.last_steps import find_last
from xray.story.exits.exit_chart import chart_exit
from xray.story.exits.handed_rows import list_normed_before
from xray.story.exits.met_maps import MetMaps, list_met_maps
from xray.story.exits.other_ways import OF_OTHERS, list_led_across


@once
def read_met_maps(reading: Reading) -> dict[int, MetMaps]:
    """The finer maps that are met behind the layers of towers behind which nothing else is drawn, by their ends."""
    flow, ends = reading.flow, {one.end: one for one in reading.towers}
    met = [(ends[end], maps) for end, maps in list_met_maps(flow, reading.towers).items()]
    return {
        one.end: maps
        for one, maps in met
        if ends_with_later(reading, one) or chart_exit(flow, one, list_others(reading, one)) is None
    }


def list_last_meetings(reading: Reading) -> dict[tuple[str, str], int]:
    """Where rows of two towers meet behind both, but what chooses the rows of another tower: that draws it (OmDet)."""
    begins = frozenset[int]().union(*(one.entrance for one in reading.towers))
    return {pair: place for pair, place in list_meetings(reading).items() if place not in begins}


def chart_leaving(reading: Reading, towering: Towering) -> Chart | None:
    """What stands behind a tower; None where a later one draws that.

    Where its rows meet those of another tower no box tells of but that of the meeting (SuperGlue, by an einsum).
    """
    if ends_with_later(reading, towering):
        return None
    others = list_others(reading, towering)
    leaving = chart_exit(reading.flow, towering, others)
    met = {place for pair, place in list_last_meetings(reading).items() if towering.tower.name in pair}
    boxed = () if leaving is None else (reading.flow.places.get(one.id) for node in leaving.nodes for one in node.steps)
    leaving = leaving if met.isdisjoint(boxed) else chart_exit(reading.flow, towering, others | met)
    return None if leaving is None else paint_beside(reading, leaving)


def paint_beside(reading: Reading, chart: Chart) -> Chart:
    """The chart with boxes of another way that no tower's layers are behind as what stands beside all (Pyramid Flow).

    So is what scales and shifts a last norm, made of a time that another tower's condition is made of too.
    """
    flow, sums = reading.flow, frozenset[int]().union(*(one.sums for one in reading.towers))
    ways = {one.key: [flow.places[step.id] for step in one.steps] for one in chart.nodes if one.surface == OF_OTHERS}
    apart = {key for key, steps in ways.items() if sums.isdisjoint(flow.behind(*steps))}
    nodes = (replace(one, surface="condition") if one.key in apart else one for one in chart.nodes)
    return replace(chart, nodes=tuple(nodes), memory=tuple(key for key in chart.memory if key not in apart))


@once_for
def list_others(reading: Reading, towering: Towering) -> frozenset[int]:
    """The steps of all other towers, and those that are drawn behind a later one, where they lead."""
    lent = (steps for end, steps in read_lent(reading).items() if end > towering.end)
    return list_of_others(reading, towering).union(*lent)


@once_for
def list_of_others(reading: Reading, towering: Towering) -> frozenset[int]:
    """The steps of all other towers, but norms of what this one gives that stand before all layers that read it."""
    others = frozenset(node for other in reading.towers if other.end != towering.end for node in other.nodes)
    return others.difference(list_normed_before(reading.flow, reading.towers))


@once
def read_lent(reading: Reading) -> dict[int, frozenset[int]]:
    """The steps that are worked out of one tower for a sum behind another one alone, by the end of that."""
    flow, towers = reading.flow, reading.towers if len(reading.towers) > 1 else ()
    leaving = {one.end: chart_exit(flow, one, list_of_others(reading, one)) for one in towers}
    return {end: list_led_across(flow, chart) for end, chart in leaving.items()}


def ends_with_later(reading: Reading, towering: Towering) -> bool:
    """Whether what stands behind a tower last stands last behind a later one too: it is drawn there alone (CaiT)."""
    last = find_last(reading.flow, towering, list_others(reading, towering))
    later = (one for one in reading.towers if one.end > towering.end)
    return last is not None and any(find_last(reading.flow, one, list_others(reading, one)) == last for one in later)
