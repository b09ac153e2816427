"""Whether the arrows of a sheet are proven: what the upper box does was worked out of what the lower one made."""

from collections.abc import Iterator
from itertools import combinations

from xray.ir.flow.cut_rows import list_cut_makers
from xray.ir.flow.operation_kinds import CARRYING


def list_unproven(columns):
    """The arrows of all charts of columns that no recorded step proves, by the names of both boxes."""
    return [
        (column.name, *names)
        for column in columns
        for chart in list_charts(column)
        for names in check_chart(column.reading.flow, chart)
    ]


def list_charts(column) -> Iterator:
    """What a column draws, from its entrance to its exit."""
    yield from filter(None, (column.entrance, column.exit))
    for frame in column.frames:
        yield from filter(None, (frame.bridge, *(panel.chart for panel in frame.panels if panel.is_open)))


def list_twice(columns) -> Iterator[tuple[str, str, list[str]]]:
    """The boxes of a chart that hold the same steps, more than one, or all that one of them does.

    Moves may stand in several; so may one sum that is drawn for queries and for keys, and what shows what comes in.
    """
    for chart in (chart for column in columns for chart in list_charts(column)):
        works = [(node.label, {step.id for step in node.steps if step.op not in CARRYING}) for node in made_in(chart)]
        for (label, own), (other, held) in combinations(works, 2):
            is_all = own <= held or held <= own
            if own & held and (is_all or len(own & held) > 1) and label.strip("QKV ") != other.strip("QKV "):
                yield label, other, sorted(own & held)


def made_in(chart) -> Iterator:
    """The boxes of a chart whose steps make what these show."""
    return (node for node in chart.nodes if node.record and node.record.source in {step.id for step in node.steps})


def check_chart(flow, chart) -> Iterator[tuple[str, str]]:
    """The arrows from one box of steps to another whose steps read nothing of it, through no third box but moves."""
    steps = {node.key: list_steps(flow, node) for node in chart.nodes}
    held = set().union(*steps.values())
    labels = {node.key: node.label for node in chart.nodes}
    for edge in chart.edges:
        lower, upper = steps[edge.source], steps[edge.target]
        if edge.source.rpartition(":")[2].startswith(("given", "also")):
            if not is_given(flow, chart.node(edge.source).record, upper, held - lower):
                yield labels[edge.source], labels[edge.target]
            continue
        if not lower or not upper or not lower.isdisjoint(upper):
            continue
        taken = reach_back(flow, upper, held)
        behind = {step for step, _ in taken}
        given = {step for step, output in taken if not leaves_out(flow, lower, step, output)}
        if lower.isdisjoint(given) and not moves_part(flow, lower, upper | behind):
            yield labels[edge.source], labels[edge.target]


def is_given(flow, record, upper, held) -> bool:
    """Whether some steps read what comes in, or what was worked out of it in no other box."""
    if record is None or not upper:
        return True
    ways = {*upper, *(step for step, _ in reach_back(flow, upper, held) if step not in held)}
    read = [one for step in ways for one, _ in flow.taken(step)]
    named = list_arguments(flow, record)
    return any(
        one.argument in named or (one.source == record.source and (record.source or is_like(one, record)))
        for one in read
    )


def list_arguments(flow, record) -> set[str]:
    """The names of what came in, of which a tensor was worked out: ids among which others were put (CPM-Ant)."""
    ways = () if record.source is None else flow.behind(flow.places.get(record.source))
    return {one.argument for step in ways for one, _ in flow.taken(step) if one.argument}


def is_like(one, other) -> bool:
    """Whether two of what came in are the same argument, as far as can be told."""
    return one.argument == other.argument if one.argument and other.argument else one.role == other.role


def leaves_out(flow, box, cut, output) -> bool:
    """Whether of the parts of a cut the steps of a box go on with others alone."""
    read = {record.output for step in box for record, maker in flow.given(step) if maker == cut}
    return output is not None and bool(read) and output not in read


def moves_part(flow, moves, others) -> bool:
    """Whether steps only move one part of a cut, which others read too."""
    if any(flow.op(step) not in CARRYING for step in moves):
        return False
    ours, theirs = (
        {(maker, record.output) for step in steps for record, maker in flow.given(step) if record.output is not None}
        for steps in (moves, others)
    )
    return not ours.isdisjoint(theirs)


def list_steps(flow, node) -> set[int]:
    """The places of all steps that a box stands for, those inside its blocks included."""
    places = {flow.places[step.id] for step in node.steps if step.id in flow.places}
    return {inner for place in places for inner in range(place, max(place + 1, flow.ends[place]))}


def reach_back(flow, steps, held) -> set[tuple[int, int | None]]:
    """The steps that some were worked out of, as far as the next ones that stand in boxes and do more than move.

    With each, which of the things that it gives was read.
    """
    found: set[tuple[int, int | None]] = set()
    todo = [taken for step in steps for taken in list_taken(flow, step)]
    while todo:
        taken = todo.pop()
        if taken in found:
            continue
        found.add(taken)
        here = taken[0]
        if here in steps or here not in held or flow.op(here) in CARRYING:
            todo += list_taken(flow, here)
    return found


def list_taken(flow, step) -> list[tuple[int, int | None]]:
    """The makers of what a step takes, each with the number of what it takes, where that is told."""
    makers = list_cut_makers(flow, step)
    told = [(maker, record.output) for record, maker in flow.given(step) if maker in makers]
    return [*told, *((maker, None) for maker in makers if maker not in dict(told))]
