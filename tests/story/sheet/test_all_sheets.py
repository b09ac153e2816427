"""What holds of every sheet: where data comes in and goes on, what axis words stand for, and that parameters add up."""

from collections import defaultdict

import pytest
from recorded import recorded
from story.body.arrows import list_twice, list_unproven
from story.body.counted import count_in_boxes

from xray.ir.flow.operation_kinds import LOOKUPS
from xray.story.facts.totals import count_params
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

NAMES = [
    *(
        "GPT-2, inference",
        "BERT, inference",
        "T5, inference",
        "BART, inference",
        "Llama, inference",
        "Marian, inference",
    ),
    *("nn.Transformer, inference", "both", "all share"),
]
WORDS = ("batch", "heads", "kv_heads", "seq_len", "src_len", "tgt_len", "d_model", "d_k", "d_ff")


@pytest.fixture(scope="module", params=NAMES)
def trace(request):
    return recorded(request.param)


def charts_of(trace):
    return [chart for column in read_columns(trace) for chart in column.charts]


def test_every_arrow_is_proven_by_steps(trace):
    assert list_unproven(read_columns(trace)) == []


def test_what_is_done_stands_in_one_box(trace):
    assert list(list_twice(read_columns(trace))) == []


def test_each_box_but_the_first_is_led_to_and_each_but_the_last_leads_on(trace):
    for chart in charts_of(trace):
        led, leading = ({edge.target for edge in chart.edges}, {edge.source for edge in chart.edges})
        outer = {node.key for node in chart.nodes if node.key in ("places", "targets") or is_lookup(node)}
        keys = {node.key for node in chart.nodes}
        assert keys <= led | {*chart.feet, *chart.memory} | outer
        assert keys <= leading | {*chart.heads}


def is_lookup(node):
    """Whether a box looks rows up: of places that are counted, nothing leads there."""
    return any(step.op in LOOKUPS for step in node.steps)


def test_an_axis_word_stands_for_one_number_in_a_chart(trace):
    for chart in charts_of(trace):
        sizes = defaultdict(set)
        for record in (node.record for node in chart.nodes if node.record is not None):
            for word, size in zip(record.axes, record.shape, strict=True):
                sizes[word].add(size)
        assert {word: sizes[word] for word in WORDS if len(sizes[word]) > 1} == {}


def test_the_parameters_of_all_parts_come_to_those_of_the_model(trace):
    shares = list_shares(read_columns(trace), trace)

    assert sum(count for *_, count in shares) == count_params(trace)


def test_boxes_hold_no_more_parameters_than_their_sublayer(trace):
    panels = [panel for column in read_columns(trace) for frame in column.frames for panel in frame.panels]
    for panel in panels:
        assert count_in_boxes(panel.chart) <= panel.params
