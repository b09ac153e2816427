"""Touching a node: shapes, formula, what changed and why, module, parameters, source, and the numbers."""

import pytest
from page_helpers import find_step, sizes

from xray.story.walk.explanations import explain_step

SCORES = "encoder.layers.0.self_attention.scores"


def fact(page, name):
    return page.locator(f"[data-fact='{name}']").first.inner_text()


@pytest.fixture
def scores(laptop):
    laptop.click(f"[data-step='{SCORES}#0'][data-pass=training]")
    return laptop


def test_a_touch_shows_what_goes_in_and_comes_out(scores, page_trace):
    step = find_step(page_trace, SCORES, "training")
    shown = scores.locator(".records .shape").all_inner_texts()

    assert shown == [sizes(record) for record in (*step.inputs, *step.outputs)]
    axes = " × ".join(step.outputs[0].axes)
    assert scores.locator(".records .words").last.inner_text() == f"{axes}, {step.outputs[0].dtype}"


def test_a_touch_tells_formula_change_and_reason(scores, page_trace):
    told = explain_step(find_step(page_trace, SCORES, "training"))

    assert [fact(scores, name) for name in ("formula", "what changes", "why")] == [
        told.formula,
        told.change,
        told.reason,
    ]


def test_a_touch_tells_module_and_source(scores, page_trace):
    step = find_step(page_trace, SCORES, "training")

    assert fact(scores, "module") == f"{step.module} · {step.path}"
    assert fact(scores, "source") == step.location


@pytest.mark.slow
def test_a_touch_tells_the_parameters(at, page_trace):
    page = at("#view=step&step=head%230&station=8")

    assert fact(page, "parameters") == f"{find_step(page_trace, 'head', 'training').params:,}"


def test_the_statistics_are_those_of_the_whole_tensor(scores, page_trace):
    found = find_step(page_trace, SCORES, "training").outputs[0].preview.statistics

    assert float(fact(scores, "minimum")) == pytest.approx(found.minimum, rel=1e-3)
    assert float(fact(scores, "maximum")) == pytest.approx(found.maximum, rel=1e-3)
    assert float(fact(scores, "mean")) == pytest.approx(found.mean, rel=1e-3)
    assert fact(scores, "NaN") == "0"


@pytest.mark.parametrize(("sequence", "head"), [(0, 0), (1, 2)])
def test_the_heat_map_shows_the_chosen_slice(at, page_trace, sequence, head):
    page = at(f"#view=step&step={SCORES}%230&sequence={sequence}&head={head}")
    rows = find_step(page_trace, SCORES, "training").outputs[0].preview.rows(sequence, head)
    page.locator(".grid [data-row='2'][data-column='3']").hover()

    assert float(page.locator(".readout").inner_text().split(": ")[-1]) == pytest.approx(rows[2][3], rel=1e-3)


def test_the_slice_can_be_chosen(scores, page_trace):
    scores.get_by_label("heads", exact=True).select_option("3")
    rows = find_step(page_trace, SCORES, "training").outputs[0].preview.rows(0, 3)
    scores.locator(".grid [data-row='1'][data-column='0']").hover()

    assert float(scores.locator(".readout").inner_text().split(": ")[-1]) == pytest.approx(rows[1][0], rel=1e-3)


@pytest.mark.slow
def test_any_two_axes_make_a_slice(scores, page_trace):
    scores.get_by_label("rows", exact=True).select_option("1")
    record = find_step(page_trace, SCORES, "training").outputs[0]
    scores.locator(".grid [data-row='2'][data-column='1']").hover()
    value = record.preview.rows(0, 2)[0][1]

    assert scores.locator(".grid .cell").count() == record.shape[1] * record.shape[3]
    assert float(scores.locator(".readout").inner_text().split(": ")[-1]) == pytest.approx(value, rel=1e-3)


@pytest.mark.slow
def test_a_layer_can_be_chosen(scores, page_trace):
    scores.get_by_label("layer", exact=True).select_option("encoder.layers.2.self_attention.scores#0")

    found = find_step(page_trace, "encoder.layers.2.self_attention.scores", "training").outputs[0].preview.statistics
    assert scores.locator("h2.path").inner_text() == "encoder.layers.2.self_attention.scores"
    assert float(fact(scores, "maximum")) == pytest.approx(found.maximum, rel=1e-3)


@pytest.mark.slow
def test_words_stand_at_the_axes(scores, page_trace):
    words = page_trace.passes[0].tokens["src"][0]

    assert scores.locator(".grid .word").all_text_contents() == [*words, *words]


@pytest.mark.slow
def test_what_was_left_out_is_said(scores):
    assert scores.locator(".missing").inner_text() == "Kept in this file: 4 of 8 along batch."


@pytest.mark.slow
def test_the_maker_of_an_input_is_one_touch_away(scores):
    scores.locator(".records .link").first.click()

    assert scores.locator("h2.path").inner_text() == "encoder.layers.0.self_attention.split_query.transpose"


@pytest.mark.slow
def test_a_single_number_is_shown_as_such(at, page_trace):
    page = at("#view=step&step=loss.cross_entropy%230&station=8")
    value = find_step(page_trace, "loss.cross_entropy", "training").outputs[0].preview.values[0]

    assert float(page.locator(".single").inner_text()) == pytest.approx(value, rel=1e-3)


def test_a_page_from_a_plain_trace_says_what_is_missing(visit, both_trace, tmp_path):
    from xray.renderers.render import render

    path = tmp_path / "plain.html"
    path.write_text(render(both_trace, "html"), encoding="utf-8")
    with visit(path, f"#view=step&step={SCORES}%230") as page:
        said = page.locator(".missing").inner_text()

    assert said.startswith("The values of this are not in the file")
