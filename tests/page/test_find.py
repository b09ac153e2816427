"""Finding steps by path, operation, shape and axis."""

from fnmatch import fnmatchcase

import pytest
from recorded import recorded

from xray.renderers.render import render


def search(page, text):
    page.fill("#query", text)
    return page.locator("#found .name").all_inner_texts()


def steps(trace):
    return trace.passes[0].steps


def shapes(step):
    return ["x".join(map(str, record.shape)) for record in (*step.outputs, *step.inputs)]


@pytest.mark.parametrize("pattern", ["8x4x10x10", "*x4x*x8", "8×14×950", "[8, 14]"])
def test_steps_are_found_by_shape(at, page_trace, pattern):
    page = at("#view=find")
    plain = pattern.replace("×", "x").strip("[]").replace(", ", "x")
    wanted = plain.split("x")
    expected = [
        step.path
        for step in steps(page_trace)
        if any(
            len(shape.split("x")) == len(wanted) and all(map(fnmatchcase, shape.split("x"), wanted))
            for shape in shapes(step)
        )
    ]

    assert search(page, pattern) == expected
    assert expected


def test_steps_are_found_by_path(at, page_trace):
    page = at("#view=find")

    assert search(page, "cross_attention.softmax") == [
        step.path for step in steps(page_trace) if "cross_attention.softmax" in step.path
    ]


@pytest.mark.slow
def test_steps_are_found_by_operation(at, page_trace):
    page = at("#view=find")

    assert search(page, "layer_norm") == [step.path for step in steps(page_trace) if step.op == "layer_norm"]


@pytest.mark.slow
def test_steps_are_found_by_axis(at, page_trace):
    page = at("#view=find")
    expected = [
        step.path
        for step in steps(page_trace)
        if any("d_ff" in record.axes for record in (*step.inputs, *step.outputs))
    ]

    assert search(page, "d_ff") == expected
    assert expected


@pytest.mark.slow
def test_what_was_found_is_marked_on_the_map(at):
    page = at("#view=find")
    search(page, "d_ff")
    marked = page.locator(".found").evaluate_all("all => all.map(one => one.dataset.step)")

    assert "encoder.layers.0.feed_forward.expand#0" in marked


def test_a_find_opens_its_step(at):
    page = at("#view=find")
    search(page, "layers.2.cross_attention.scores")
    page.locator("#found button").first.click()

    assert page.locator("h2.path").inner_text() == "decoder.layers.2.cross_attention.scores"


@pytest.mark.slow
def test_nothing_found_is_said(at):
    page = at("#view=find")
    search(page, "nowhere")

    assert page.locator("#found [role=status]").inner_text() == "0 steps found here"


def test_the_slash_key_leads_to_the_field(laptop):
    laptop.keyboard.press("/")

    assert laptop.evaluate("document.activeElement.id") == "query"


def test_a_number_is_said_to_be_the_size_that_it_is(laptop):
    laptop.keyboard.press("/")
    laptop.locator("#query").fill("what is 950?")

    assert laptop.locator(".answer").inner_text() == "950 is tgt_vocab."


def test_a_question_is_answered_with_the_walks_own(laptop):
    laptop.keyboard.press("/")
    laptop.locator("#query").fill("embeddings multiplied sqrt")
    question = laptop.locator("#found details summary").first

    assert question.inner_text() == "Why are the embeddings multiplied by sqrt(d_model)?"


@pytest.mark.parametrize("query", ["950", "cross-attention", "cross-attention softmax"])
def test_what_people_type_finds_steps(laptop, query):
    laptop.keyboard.press("/")
    laptop.locator("#query").fill(query)

    assert laptop.locator("#found .steps button").count() > 1


def test_a_found_step_takes_the_walk_along(laptop):
    laptop.keyboard.press("/")
    laptop.locator("#query").fill("decoder.layers.0.cross_attention.softmax")
    laptop.locator("#found .steps button").first.click()

    assert laptop.locator("#rail [aria-current=step]").inner_text() == "6"


@pytest.mark.slow
def test_any_model_is_asked_about_what_its_walk_says(visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render(recorded("Llama, inference"), "html"), encoding="utf-8")
    with visit(path, "#view=find") as page:
        page.fill("#query", "why rotary places?")
        page.locator(".answer button").first.click()

        assert "Rotary places" in page.locator("#views").inner_text()
        assert page.locator("#rail [aria-current=step]").inner_text() == "1"
