"""Whether the arrows of a sheet are proven, and what is done stands in one box of a chart."""

from collections.abc import Iterator
from itertools import combinations

from xray.ir.flow.operation_kinds import CARRYING
from xray.story.sheet.arrows.proof import check_chart


def list_unproven(columns) -> list[tuple[str, str, str]]:
    """The arrows of all charts of columns that no recorded step proves: the tower's name, and those of both boxes."""
    return [
        (column.name, chart.node(edge.source).label, chart.node(edge.target).label)
        for column in columns
        for chart in column.charts
        for edge in check_chart(column.reading.flow, chart)
    ]


def list_twice(columns) -> Iterator[tuple[str, str, list[str]]]:
    """The boxes of a chart that hold the same steps, more than one, or all that one of them does.

    Moves may stand in several; so may one sum that is drawn for queries and for keys, and what shows what comes in.
    """
    for chart in (chart for column in columns for chart in column.charts):
        works = [(node.label, {step.id for step in node.steps if step.op not in CARRYING}) for node in made_in(chart)]
        for (label, own), (other, held) in combinations(works, 2):
            is_all = own <= held or held <= own
            if own & held and (is_all or len(own & held) > 1) and label.strip("QKV ") != other.strip("QKV "):
                yield label, other, sorted(own & held)


def made_in(chart) -> Iterator:
    """The boxes of a chart whose steps make what these show."""
    return (node for node in chart.nodes if node.record and node.record.source in {step.id for step in node.steps})
