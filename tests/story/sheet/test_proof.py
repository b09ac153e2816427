"""Arrows that no recorded step proves are not drawn; where a box would be left without any, nothing is drawn so."""

from dataclasses import replace

import pytest
from recorded import recorded

from xray.renderers.fonts import text_width
from xray.story.charts.chart import Edge
from xray.story.poster import compose_poster
from xray.story.sheet import compose
from xray.story.sheet.columns import read_columns
from xray.story.sheet.proof import keep_proven, list_unproven


def lead(columns, source, target, *, instead=False):
    """The columns with an arrow more in the first panel, by labels; it may be there instead of all to its target."""
    (column, *others) = columns
    (frame, *frames) = column.frames
    (panel, *panels) = frame.panels
    chart = panel.chart
    low, high = (next(node.key for node in chart.nodes if node.label.startswith(one)) for one in (source, target))
    kept = [edge for edge in chart.edges if not (instead and edge.target == high)]
    led = replace(panel, chart=replace(chart, edges=(*kept, Edge(low, high))))
    return [replace(column, frames=(replace(frame, panels=(led, *panels)), *frames)), *others]


@pytest.fixture(name="columns")
def read():
    return read_columns(recorded("GPT-2, inference"))


def test_a_sheet_without_false_arrows_stays_as_it_is(columns):
    assert keep_proven(columns) == columns


def test_a_false_arrow_beside_true_ones_is_dropped(columns):
    false = lead(columns, "LAYER NORM", "WEIGHTS · V")

    assert [names[1:] for names in list_unproven(false)] == [("LAYER NORM", "WEIGHTS · V")]
    assert keep_proven(false) == columns


def test_a_sheet_with_a_box_that_only_a_false_arrow_leads_to_is_none(columns, monkeypatch):
    false = lead(columns, "LAYER NORM", "WEIGHTS · V", instead=True)
    assert keep_proven(false) is None

    monkeypatch.setattr(compose, "read_columns", lambda trace, all_layers: false)
    assert compose_poster(recorded("GPT-2, inference"), text_width) is None


def test_an_arrow_that_is_missing_is_put_back(columns):
    (column, *others) = columns
    (frame, *frames) = column.frames
    (panel, *panels) = frame.panels
    chart = panel.chart
    (softmax,) = (node.key for node in chart.nodes if node.label.startswith("SOFTMAX"))
    edges = [edge for edge in chart.edges if edge.source != softmax]
    (lost,) = {*chart.edges}.difference(edges)
    without = replace(panel, chart=replace(chart, edges=tuple(edges)))
    led = keep_proven([replace(column, frames=(replace(frame, panels=(without, *panels)), *frames)), *others])

    assert {*led[0].frames[0].panels[0].chart.edges} == {*edges, lost}
