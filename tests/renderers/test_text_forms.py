"""The tables as Markdown and as comma-separated values, and the drawing by blocks as a Mermaid flowchart."""

import csv
import io
import re
from dataclasses import replace

import pytest
from recorded import recorded
from small_traces import record, small_trace, step
from story.alarms.planted import meaning
from story.alarms.planted.pairs import PAIRS, trace_pair

from xray.errors import UsageError
from xray.ir.trace import Pass, Trace
from xray.renderers.blocks.mermaid import write_mermaid
from xray.renderers.render import render
from xray.renderers.table.markdown import clean, write_markdown
from xray.renderers.table.spreadsheet import write_csv
from xray.renderers.table.table import draw_tables
from xray.story.alarms.whole import find_alarms
from xray.story.blocks.opening import Choice
from xray.story.facts.selection import Pick

EVIL = 'a"]; x --> y\n%%{init: {}}%% | <b>`*_&#'


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def trace_of(*steps, title="net"):
    return Trace(title, {}, {}, (Pass("forward", 0, {}, steps),))


def network(name="hidden"):
    x, y = record("x", "batch d_model"), record("out", "batch d_ff", source=f"net.{name}#0")
    return trace_of(
        step("net", "net", [x], [replace(y, source="net.last#0")]),
        step(f"net.{name}", "linear", [x], [y], parent="net", params=442),
        step("net.last", "relu", [y], [replace(y, source="net.last#0")], parent="net"),
    )


def test_every_step_is_a_row_of_values(both_trace):
    rows = read(write_csv(both_trace))

    assert len(rows) == len(both_trace.steps)
    assert {(row["pass"], row["turn"]) for row in rows} >= {("training", ""), ("decode", "1"), ("decode", "5")}


def test_a_row_holds_shapes_axes_mask_and_work():
    row = next(row for row in read(write_csv(small_trace())) if row["path"] == "encoder.layers.0.self_attention.scores")

    assert (row["input shapes"], row["output shapes"]) == ("2x3x5x11; 2x3x11x5", "2x3x5x5")
    assert (row["output axes"], row["FLOPs"]) == ("batch x heads x src_len x src_len", str(2 * 2 * 3 * 5 * 5 * 11))


def test_only_the_steps_that_are_picked_are_rows():
    assert {row["path"] for row in read(write_csv(network(), Pick(("net.last",))))} == {"net.last"}


@pytest.mark.parametrize("name", ["=SUM(A1)", "+1", "-1", "@x"])
def test_a_spreadsheet_computes_no_name(name):
    trace = trace_of(step(name, "relu", [record("x", "batch")], [record("out", "batch")]))

    assert read(write_csv(trace))[0]["path"] == f"'{name}"


def test_markdown_has_a_heading_for_each_station_and_alike_layers_once():
    text = write_markdown(recorded("two and four layers"))

    assert re.search(r"^## Training step$", text, re.M)
    assert re.search(r"^### \d [a-z -]+, × 2: layers 0 and 1 are alike$", text, re.M)
    assert "8×4×10×8, 8×4×8×10 → 8×4×10×10 | batch × heads × src_len × src_len |" in text


def test_every_row_of_markdown_has_as_many_cells_as_its_heading(both_trace):
    tables = re.findall(r"(?:^\|.*\n)+", write_markdown(both_trace, all_layers=True), re.M)

    assert len(tables) > 10
    assert {len(re.findall(r"(?<!\\)\|", line)) for table in tables for line in table.splitlines()} == {9}


def test_names_that_mean_something_to_markdown_are_shown_as_they_are():
    text = write_markdown(network(EVIL))

    assert r"a\"".replace("\\", "") in text
    assert r"\| \<b\>\`\*\_\&\#" in text
    assert "\\x0a" in text


def test_a_failure_and_its_rule_stand_in_markdown():
    pair = [record("left", "batch d_k"), record("right", "d_ff batch")]
    failed = step("net", "matmul", pair, error="RuntimeError: no such shapes")

    assert "**failed**: RuntimeError: no such shapes (the inner axes have to be equal: 11 and 13)" in write_markdown(
        trace_of(failed)
    )


def test_mermaid_has_a_node_for_each_step_a_frame_for_each_block_and_an_arrow_for_each_tensor():
    assert write_mermaid(network()).splitlines() == [
        "---",
        'title: "net"',
        "---",
        "flowchart BT",
        '    subgraph p0_frame_1_0["net  Net"]',
        '        p0_n0["hidden  linear<br/>2×13   batch×d_ff"]',
        '        p0_n1["last  relu<br/>2×13   batch×d_ff"]',
        "    end",
        "    p0_n0 --> p0_n1",
        '    p0_gate_0(["x input<br/>2×33   batch×d_model"])',
        "    p0_gate_0 --> p0_n0",
        '    p0_gate_1(["output<br/>2×13   batch×d_ff"])',
        "    p0_n1 --> p0_gate_1",
        "    classDef failed stroke:#FF6B5E,stroke-width:4px",
    ]


def test_blocks_of_mermaid_are_opened_as_asked(both_trace):
    closed, opened = (write_mermaid(both_trace, blocks=Choice(depth=depth)) for depth in (0, 2))

    assert closed.count("subgraph") < opened.count("subgraph")
    assert "[[" in closed
    with pytest.raises(UsageError, match="fits no block"):
        write_mermaid(both_trace, blocks=Choice(opened=("nowhere",)))


def test_a_step_that_failed_is_marked_in_mermaid():
    failed = step("net", "matmul", [record("left", "batch")], error="RuntimeError: no")

    assert re.search(r'p0_n0\[".*"\]:::failed$', write_mermaid(trace_of(failed)), re.M)


def test_names_that_mean_something_to_mermaid_are_spelt_out():
    lines = write_mermaid(replace(network(EVIL), title=EVIL)).splitlines()
    named = [line for line in lines if "x --" in line]

    assert named
    assert not any(set('"<>%{}|`') & set(re.sub(r'^[^"]*"|"[^"]*$', "", line).replace("<br/>", "")) for line in named)


@pytest.mark.parametrize(("form", "begins"), [("markdown", "# "), ("csv", "pass,turn,"), ("mermaid", "---\ntitle: ")])
def test_each_form_has_its_name(form, begins):
    assert render(small_trace(), form).startswith(begins)


@pytest.fixture(scope="module")
def faulty():
    bug = next(one for one in PAIRS if one.place is meaning.fill_with_zero)
    return trace_pair(bug, bug.bad)


def test_an_alarm_stands_in_every_table_with_its_step_its_line_and_what_to_do(faulty):
    (alarm,) = find_alarms(faulty)
    row = next(row for row in read(write_csv(faulty)) if row["alarm"])
    told = write_markdown(faulty).split("## Forward")[0]
    shown = " ".join(draw_tables(faulty).split("FORWARD")[0].split())

    assert (row["id"], row["alarm"], row["what to do"]) == (alarm.step, "weak", alarm.remedy)
    assert row["what is wrong"] == f"{alarm.location}: {alarm.text}"
    assert f"- **a mask hides too little**, {clean(alarm.step)}, {clean(str(alarm.location))}: " in told
    assert clean(alarm.remedy) in told
    assert shown.endswith(f"{alarm.location} {alarm.step} {alarm.text} {alarm.remedy}")


def test_only_alarms_of_the_steps_that_are_picked_are_told(faulty):
    assert "1 alarm" not in draw_tables(faulty, pick=Pick(("words",)))
    assert "## Alarms" not in write_markdown(faulty, pick=Pick(("words",)))


def test_a_sound_trace_has_no_heading_for_alarms(both_trace):
    assert "## Alarms" not in write_markdown(both_trace)
