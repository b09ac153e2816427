"""Traces that are not of X-Ray's transformer, and words that would like to be markup."""

from dataclasses import replace

import pytest
from page_helpers import sizes
from small_traces import record, step

from xray.ir.trace import Pass, Trace
from xray.renderers.render import render

EVIL = "</script><script>window.evil=1</script><img src=x onerror=window.evil=1>"


@pytest.fixture(scope="module")
def small_trace():
    """Two forward passes of a model with one block and two layers in it."""
    steps = (
        step("net", "net", [record("x", "batch d_model")], [record("out", "batch d_ff", source="net.last#0")]),
        step(
            "net.first",
            "linear",
            [record("x", "batch d_model")],
            [record("out", "batch d_k", source="net.first#0")],
            parent="net",
            params=374,
        ),
        step(
            "net.last",
            "linear",
            [record("x", "batch d_k", source="net.first#0")],
            [record("out", "batch d_ff", source="net.last#0")],
            parent="net",
            params=156,
        ),
    )
    return Trace("Small net", {}, {}, (Pass("forward", 0, {}, steps), Pass("forward", 1, {}, steps)))


@pytest.fixture
def open_trace(visit, tmp_path):
    def go(trace, place=""):
        path = tmp_path / "other.html"
        path.write_text(render(trace, "html"), encoding="utf-8")
        return visit(path, place)

    return go


def test_any_model_has_a_map_of_its_own(open_trace, small_trace):
    with open_trace(small_trace) as page:
        names = page.locator("[data-step]").evaluate_all("all => all.map(one => one.dataset.step)")

    assert {"net.first#0", "net.last#0"} <= set(names)


def test_any_model_has_no_stations_but_all_its_steps(open_trace, small_trace):
    with open_trace(small_trace) as page:
        assert not page.locator("#rail").is_visible()
        assert page.locator(".tree .name").all_inner_texts() == ["first", "last"]


def test_a_touch_on_any_model_shows_its_shapes(open_trace, small_trace):
    with open_trace(small_trace) as page:
        page.locator("[data-step='net.last#0']").first.click()
        shown = page.locator(".records .shape").all_inner_texts()

    last = small_trace.passes[0].by_id["net.last#0"]
    assert shown == [sizes(last.inputs[0]), sizes(last.outputs[0])]


def test_passes_are_chosen_with_the_slider(open_trace, small_trace):
    with open_trace(small_trace) as page:
        page.locator("#turn").fill("2")

        assert page.locator("#turn_name").inner_text() == "pass 2 of 2"
        assert page.locator(".other_phase").count() == 0


def test_without_values_the_page_says_so(open_trace, small_trace):
    with open_trace(small_trace, "#view=step&step=net.last%230") as page:
        assert (
            page.locator(".missing").inner_text()
            == "The trace was recorded without values. xray page of a model that can be run keeps them."
        )


def test_arrow_keys_do_no_harm_without_stations(open_trace, small_trace):
    with open_trace(small_trace) as page:
        page.keyboard.press("ArrowRight")

        assert page.locator("#views h2").inner_text() == "Small net"


def test_a_name_that_looks_like_markup_stays_text(open_trace):
    path = f"net.{EVIL}"
    evil = step(path, EVIL, [record(EVIL, "batch")], [record("out", "batch", source=f"{path}#0")])
    trace = Trace(EVIL, {}, {"question": EVIL}, (Pass("forward", 0, {"src": ((EVIL,),)}, (evil,)),))
    with open_trace(trace) as page:
        page.locator(".tree [role=treeitem]").first.click()

        assert page.evaluate("window.evil ?? 0") == 0
        assert page.locator("h1").inner_text() == EVIL
        assert page.locator("h2.path").inner_text() == path


def test_words_that_look_like_markup_stay_text(open_trace, both_trace):
    one, *rest = both_trace.passes
    words = tuple((EVIL, *row[1:]) for row in one.tokens["src"])
    trace = replace(both_trace, passes=(replace(one, tokens={**one.tokens, "src": words}), *rest))
    with open_trace(trace, "#view=attention") as page:
        assert page.evaluate("window.evil ?? 0") == 0
        assert page.locator(".large .word").first.text_content().startswith("</script>")


def test_a_trace_with_a_failed_step_says_where_it_failed(open_trace, small_trace):
    first, *others = small_trace.passes[0].steps
    failed = replace(others[-1], outputs=(), error="RuntimeError: shapes do not fit")
    trace = replace(small_trace, passes=(Pass("forward", 0, {}, (first, others[0], failed)),))
    with open_trace(trace, "#view=step&step=net.last%230") as page:
        assert "RuntimeError: shapes do not fit" in page.locator(".warning").inner_text()


def test_a_model_without_attention_has_no_tabs_of_attention_and_masks(open_trace, small_trace):
    with open_trace(small_trace, "#view=attention") as page:
        assert page.locator("[role=tab]").all_inner_texts() == ["Steps", "Step", "Find"]
        assert page.locator("#views h2").inner_text() == "Small net"
