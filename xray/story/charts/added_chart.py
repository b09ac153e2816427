"""The chart of rows of another tower that are worked out, and added to a stream between its layers (Qwen3-VL)."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.charts.chart import BROAD, RIGHT_HALF, Chart, Edge, Node, steps_at
from xray.story.charts.operations_chart import chart_operations
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.passages.rows_between import RowsBetween, is_worked_out
from xray.story.sentences.of_parts import describe_elsewhere, describe_source


def chart_added(flow: Flow, added: Sequence[RowsBetween], layer: int) -> Chart | None:
    """What is added before a layer, where nothing is before the next: the rows, what works them out, and the sum.

    The stream comes by on the left. None where no rows are added there for the last time.
    """
    rows = added[-1] if added else None
    if rows is None or rows.layer + 1 != layer or not is_worked_out(flow, rows):
        return None
    labels = label_joined_rows(flow, rows.nodes)
    chart = chart_operations(flow, rows.nodes, rows.nodes[-1], labels, f"added{layer}_")
    if chart is None or any(len(list(chart.in_row(row))) > 1 for row in range(chart.rows)):
        return None
    told = describe_elsewhere([one.layer for one in added[:-1]])
    label, source = f"ROWS OF THE {rows.of.upper()} TOWER", describe_source(rows.behind)
    first = Node(f"rows{layer}", label, 0, RIGHT_HALF, steps_at(flow, rows.source), flow.output(rows.source))
    first = replace(first, told=(source,) if source else ())
    inner = [replace(node, place=RIGHT_HALF) for node in chart.raised(1).nodes]
    steps, out = steps_at(flow, *dict.fromkeys((rows.end, rows.add))), flow.output(rows.end)
    last = Node(f"sum{layer}", "ADDED TO SOME ROWS", chart.rows + 1, BROAD, steps, out, told=(told,) if told else ())
    fed = {edge.target for edge in chart.edges}
    edges = [Edge(first.key, node.key) for node in inner if node.key not in fed]
    edges += [*chart.edges, Edge(chart.head, last.key)]
    return Chart((first, *inner, last), tuple(edges), (last.key,), last.key)
