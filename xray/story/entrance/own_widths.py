"""The width of a tower in a chart: the word for it stands beside its own numbers alone."""

from dataclasses import replace
from typing import TypeVar

from xray.ir.records import TensorRecord
from xray.story.charts.chart import Chart, Node

WIDTH = "d_model"
Told = TypeVar("Told", Chart, Chart | None)


def tell_own_width(chart: Told, d_model: int | None) -> Told:
    """The chart, in which no rows of another width have the word for that of the tower, where both stand (LLaVA).

    In a sublayer that makes rows wider, it is the width of what it ends with (Hiera).
    """
    if chart is None or not any((WIDTH, d_model) in list_sizes(node.record) for node in chart.nodes):
        return chart
    return replace(chart, nodes=tuple(without_others(node, d_model) for node in chart.nodes))


def list_sizes(record: TensorRecord | None) -> list[tuple[str, int]]:
    """The axes of a tensor, each by its word and its size."""
    return [] if record is None else list(zip(record.axes, record.shape, strict=False))


def without_others(node: Node, d_model: int | None) -> Node:
    """A box without the word where its number is another one."""
    if node.record is None or all(word != WIDTH or size == d_model for word, size in list_sizes(node.record)):
        return node
    axes = tuple("" if word == WIDTH and size != d_model else word for word, size in list_sizes(node.record))
    return replace(node, record=replace(node.record, axes=axes))
