"""No arrow but a proven one: what the upper box does was worked out of what the lower one made."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from xray.ir.flow.cut_rows import list_cut_makers
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SIDE_BY_SIDE
from xray.ir.records import TensorRecord
from xray.story.charts.between_chart import list_places
from xray.story.charts.chart import Chart, Edge
from xray.story.charts.narrow import renumber
from xray.story.sheet.columns import Column

Taken = tuple[int, int | None]
"""A step, and the number of what it gives; None where that is not told."""


def keep_proven(columns: Sequence[Column]) -> list[Column] | None:
    """The columns without arrows that no recorded step proves, and with those that are missing.

    None where nothing would lead to a box any more: it says that something is made otherwise than it is. A box that
    would lead to nothing is left out.
    """
    drawn = [list_worked_out(column) for column in columns]
    found = [
        prove_column(column, frozenset[str]().union(*(own for own in drawn if own is not drawn[place])))
        for place, column in enumerate(columns)
    ]
    return None if None in found else [one for one in found if one is not None]


def list_worked_out(column: Column) -> frozenset[str]:
    """The steps of a column's boxes that do more than move numbers."""
    flow = column.reading.flow
    held = {step for chart in column.charts for node in chart.nodes for step in list_places(flow, node)}
    return frozenset(flow.steps[step].id for step in held if flow.op(step) not in CARRYING)


def prove_column(column: Column, elsewhere: Collection[str]) -> Column | None:
    """A column with proven arrows alone, in each phase that it shows; None where some are not to be had.

    None of them passes over steps that stand in boxes elsewhere.
    """
    twin = None if column.twin is None else prove_column(column.twin, elsewhere)
    flow = column.reading.flow
    others = {place for one in elsewhere if (place := flow.places.get(one)) is not None}
    charts = {id(chart): prove_arrows(flow, chart, others) for chart in column.charts}
    if None in charts.values() or (twin is None) != (column.twin is None):
        return None
    return put_charts(replace(column, twin=twin), {key: one for key, one in charts.items() if one is not None})


def put_charts(column: Column, charts: Mapping[int, Chart]) -> Column:
    """The column with other charts, by the identities of those that they stand for."""

    def find(chart: Chart | None) -> Chart | None:
        return None if chart is None else charts.get(id(chart), chart)

    frames = (
        replace(
            frame,
            bridge=find(frame.bridge),
            corrected=find(frame.corrected),
            panels=tuple(replace(one, chart=charts.get(id(one.chart), one.chart)) for one in frame.panels),
        )
        for frame in column.frames
    )
    entrance, leaving, condition = map(find, (column.entrance, column.exit, column.condition))
    return replace(column, frames=tuple(frames), entrance=entrance, exit=leaving, condition=condition)


def prove_arrows(flow: Flow, chart: Chart, others: Set[int] = frozenset()) -> Chart | None:
    """The chart without unproven arrows, and with all others; None where nothing would lead to a box any more.

    No arrow leads over the steps of `others`, which stand in boxes elsewhere.
    """
    false = frozenset(check_chart(flow, chart))
    over = frozenset(check_chart(flow, chart, others)) - false
    edges = tuple(edge for edge in chart.edges if edge not in false)
    edges = (*edges, *find_missing(flow, replace(chart, edges=edges), others))
    edges = tuple(edge for edge in edges if edge not in over)
    led = {edge.target for edge in edges}.union(chart.feet, chart.memory)
    is_led = all(edge.target in led for edge in false)
    return leave_out(replace(chart, edges=edges), {edge.source for edge in false}) if is_led else None


def leave_out(chart: Chart, keys: Set[str]) -> Chart | None:
    """The chart without those of some boxes that lead to nothing, nor what led to these alone; None without any foot.

    What they are worked out for stands in no box (EDM: the noise's share by which the entrance is multiplied).
    """
    idle = keys - {edge.source for edge in chart.edges}.union(chart.heads)
    if not idle:
        return chart
    nodes = [node for node in chart.nodes if node.key not in idle]
    places = {row: place for place, row in enumerate(sorted({node.row for node in nodes}))}
    feet, memory = (tuple(key for key in one if key not in idle) for one in (chart.feet, chart.memory))
    edges = tuple(edge for edge in chart.edges if edge.target not in idle)
    below = {edge.source for edge in chart.edges if edge.target in idle}
    left = renumber(replace(chart, nodes=tuple(nodes), edges=edges, feet=feet, memory=memory), places)
    return leave_out(left, below) if feet else None


def find_missing(flow: Flow, chart: Chart, others: Set[int] = frozenset()) -> list[Edge]:
    """The arrows that are not there from boxes below to others, which read what they made by no way that is drawn.

    Steps that stand in several boxes tell of none, nor do those that only move what others made.
    """
    steps = {node.key: list_places(flow, node) for node in chart.nodes}
    times = Counter(step for own in steps.values() for step in own)
    owners = {step: key for key, own in steps.items() for step in own if times[step] == 1}
    rows = {node.key: node.row for node in chart.nodes}
    below: dict[str, set[str]] = {key: set() for key in rows}
    found: list[Edge] = []
    for key in sorted(rows, key=rows.__getitem__):
        for edge in chart.edges:
            if edge.target == key:
                below[key] |= {edge.source, *below[edge.source]}
        own = [step for step in steps[key] if times[step] == 1]
        taken = reach_back(flow, own, times.keys() | others)
        worked = ((step, output) for step, output in taken if flow.op(step) not in CARRYING)
        going_on = list_read(flow, own)
        made = (owners.get(step) for step, output in worked if not leaves_out(going_on, step, output))
        for lower in sorted({one for one in made if one is not None and one != key} - below[key]):
            if rows[lower] < rows[key]:
                found.append(Edge(lower, key))
                below[key] |= {lower, *below[lower]}
    return found


def check_chart(flow: Flow, chart: Chart, others: Set[int] = frozenset()) -> Iterator[Edge]:
    """The arrows from one box of steps to another whose steps read nothing of it, through no third box but moves."""
    steps = {node.key: list_places(flow, node) for node in chart.nodes}
    held = frozenset(others).union(*steps.values())
    for edge in chart.edges:
        lower, upper = steps[edge.source], steps[edge.target]
        if (source := chart.node(edge.source)).is_given:
            is_proven = is_given(flow, source.record, upper, held - lower)
        else:
            is_proven = not lower or not upper or not lower.isdisjoint(upper) or leads(flow, lower, upper, held)
        if not is_proven:
            yield edge


def leads(flow: Flow, lower: Collection[int], upper: Collection[int], held: Collection[int]) -> bool:
    """Whether some steps read what others gave, through none that is held but moves.

    What takes of rows end to end those of one part alone reads what put them so all the same.
    """
    joins = {node for node in lower if flow.op(node) in SIDE_BY_SIDE}
    if any(not joins.isdisjoint(flow.makers[step]) for step in upper):
        return True
    taken = reach_back(flow, upper, held)
    behind = {step for step, _ in taken}
    read = list_read(flow, lower)
    given = {step for step, output in taken if not leaves_out(read, step, output)}
    return not given.isdisjoint(lower) or moves_part(flow, lower, behind.union(upper))


def is_given(flow: Flow, record: TensorRecord | None, upper: Collection[int], held: Collection[int]) -> bool:
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


def list_arguments(flow: Flow, record: TensorRecord) -> set[str]:
    """The names of what came in, of which a tensor was worked out: ids among which others were put (CPM-Ant)."""
    ways = () if record.source is None else flow.behind(flow.places.get(record.source))
    return {one.argument for step in ways for one, _ in flow.taken(step) if one.argument}


def is_like(one: TensorRecord, other: TensorRecord) -> bool:
    """Whether two of what came in are the same argument, as far as can be told."""
    return one.argument == other.argument if one.argument and other.argument else one.role == other.role


def list_read(flow: Flow, box: Iterable[int]) -> dict[int, set[int | None]]:
    """Which of the things that its makers give the steps of a box go on with."""
    found: dict[int, set[int | None]] = {}
    for record, maker in (one for step in box for one in flow.given(step)):
        if maker is not None:
            found.setdefault(maker, set()).add(record.output)
    return found


def leaves_out(read: Mapping[int, Collection[int | None]], cut: int, output: int | None) -> bool:
    """Whether of the parts of a cut a box goes on with others alone."""
    return output is not None and cut in read and output not in read[cut]


def moves_part(flow: Flow, moves: Collection[int], others: Collection[int]) -> bool:
    """Whether steps only move one part of a cut, which others read too."""
    if any(flow.op(step) not in CARRYING for step in moves):
        return False
    ours, theirs = (
        {(maker, record.output) for step in steps for record, maker in flow.given(step) if record.output is not None}
        for steps in (moves, others)
    )
    return not ours.isdisjoint(theirs)


def reach_back(flow: Flow, steps: Collection[int], held: Collection[int]) -> set[Taken]:
    """The steps that some were worked out of, as far as the next ones that stand in boxes and do more than move.

    With each, which of the things that it gives was read.
    """
    found, own = set[Taken](), frozenset(steps)
    todo = [taken for step in steps for taken in list_taken(flow, step)]
    while todo:
        taken = todo.pop()
        if taken in found:
            continue
        found.add(taken)
        here = taken[0]
        if here in own or here not in held or flow.op(here) in CARRYING:
            todo += list_taken(flow, here)
    return found


def list_taken(flow: Flow, step: int) -> list[Taken]:
    """The makers of what a step takes, each with the number of what it takes, where that is told."""
    makers = list_cut_makers(flow, step)
    told = [(maker, record.output) for record, maker in flow.given(step) if maker in makers and maker is not None]
    return [*told, *((maker, None) for maker in makers if maker not in dict(told))]
