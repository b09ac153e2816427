"""Arrows that no recorded step proves are not drawn; where a box would be left without any, nothing is drawn so."""

from dataclasses import replace

import pytest
from recorded import recorded
from story.body.arrows import list_unproven

from xray.renderers.fonts import text_width
from xray.story.charts.chart import Edge
from xray.story.poster import compose_poster
from xray.story.sheet import compose
from xray.story.sheet.columns import read_columns
from xray.story.sheet.proof import keep_proven


def change(columns, **parts):
    """The columns with the chart of the first panel changed."""
    (column, *others) = columns
    (frame, *frames) = column.frames
    (panel, *panels) = frame.panels
    changed = replace(panel, chart=replace(panel.chart, **parts))
    return [replace(column, frames=(replace(frame, panels=(changed, *panels)), *frames)), *others]


def chart_of(columns):
    return columns[0].frames[0].panels[0].chart


def find(columns, label):
    return next(node for node in chart_of(columns).nodes if node.label.startswith(label))


@pytest.fixture(name="columns")
def read():
    return read_columns(recorded("GPT-2, inference"))


def test_a_sheet_without_false_arrows_stays_as_it_is(columns):
    assert keep_proven(columns) == columns


def test_a_false_arrow_is_dropped(columns):
    arrow = Edge(find(columns, "LAYER NORM").key, find(columns, "WEIGHTS · V").key)
    false = change(columns, edges=(*chart_of(columns).edges, arrow))

    assert [names[1:] for names in list_unproven(false)] == [("LAYER NORM", "WEIGHTS · V")]
    assert keep_proven(false) == columns


def test_an_arrow_that_is_missing_is_put_back(columns):
    softmax = find(columns, "SOFTMAX").key
    kept = [edge for edge in chart_of(columns).edges if edge.source != softmax]
    led = keep_proven(change(columns, edges=tuple(kept)))

    assert {*kept} < {*chart_of(columns).edges} == {*chart_of(led).edges}


def test_a_sheet_with_a_box_that_nothing_leads_to_is_none(columns, monkeypatch):
    sums = find(columns, "WEIGHTS · V")
    nodes = [
        replace(node, steps=find(columns, "LAYER NORM").steps) if node == sums else node
        for node in chart_of(columns).nodes
    ]
    false = change(columns, nodes=tuple(nodes))
    assert keep_proven(false) is None

    monkeypatch.setattr(compose, "read_columns", lambda trace, all_layers: false)
    assert compose_poster(recorded("GPT-2, inference"), text_width) is None
