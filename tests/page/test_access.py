"""The page for everyone: what axe finds, and the whole of it by keyboard alone."""

from pathlib import Path

import pytest
from page_helpers import LAPTOP, PHONE, rest

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = {
    "beginning": "#view=show",
    "performance": "#view=show&moment=8",
    "walk": "#station=2",
    "debate": "#station=6&phase=inference&turn=3",
    "candidates": "#station=8&phase=inference&turn=2",
    "step": "#view=step&step=encoder.layers.0.self_attention.scores%230",
    "followed": "#view=step&step=encoder.layers.0.self_attention.split_query.view%230",
    "attention": "#view=attention&attention=cross&phase=inference&turn=4",
    "masks": "#view=masks&station=4",
    "find": "#view=find",
    "axis": "#axis=heads&station=2",
    "unfolded": "#view=tree&block=whole&open=0&phase=inference&turn=2",
    "bookmarked": "#view=tree&step=encoder.layers.0.self_attention.scores%230&marks=0-5",
}


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm install")
@pytest.mark.parametrize(("theme", "size"), [("dark", LAPTOP), ("light", LAPTOP), ("dark", PHONE)])
@pytest.mark.slow
def test_axe_finds_nothing_serious(at, theme, size):
    page = at("", size, color_scheme=theme)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for view, place in VIEWS.items():
        page.evaluate("place => { location.hash = place; }", f"{place}&shown={view}")
        rest(page)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]

        assert [
            (view, one["id"], [node["html"][:120] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ] == []


def tab_to(page, wanted, most=60):
    """Press Tab until the element that a script describes has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(f"(() => {{ const at = document.activeElement; return {wanted}; }})()"):
            return
    pytest.fail(f"the Tab key never led to {wanted}")


@pytest.mark.slow
def test_the_phase_can_be_changed_by_keyboard(laptop):
    tab_to(laptop, "at.dataset.phase === 'inference'")
    laptop.keyboard.press("Enter")

    assert laptop.locator("[data-phase=inference]").get_attribute("aria-pressed") == "true"


@pytest.mark.slow
def test_the_turn_can_be_changed_by_keyboard(at):
    page = at("#phase=inference&turn=2")
    tab_to(page, "at.id === 'turn'")
    page.keyboard.press("ArrowRight")

    assert page.input_value("#turn") == "3"


def test_the_tabs_are_walked_with_arrows(laptop):
    tab_to(laptop, "at.id === 'tab_walk'")
    laptop.keyboard.press("ArrowRight")

    assert laptop.evaluate("document.activeElement.id") == "tab_step"
    assert laptop.locator("#rail [aria-current=step]").inner_text() == "1"


def test_a_step_can_be_opened_from_the_map_by_keyboard(laptop):
    tab_to(laptop, "Boolean(at.dataset.step)")
    laptop.keyboard.press("Enter")

    assert laptop.locator("h2.path").count() == 1


@pytest.mark.slow
def test_a_step_can_be_opened_from_the_walk_by_keyboard(laptop):
    tab_to(laptop, "Boolean(at.dataset.id)")
    laptop.keyboard.press("Enter")

    assert laptop.locator("h2.path").inner_text() == "tokenize.src"


def test_weights_are_read_by_keyboard(at):
    page = at("#view=attention&attention=cross&phase=inference&turn=3")
    page.focus(".large .grid")
    page.keyboard.press("ArrowRight")

    assert "looks at" in page.locator("#said").inner_text()


@pytest.mark.slow
def test_what_has_the_focus_keeps_it_when_the_view_is_drawn_anew(at):
    page = at("#view=attention&attention=cross")
    page.get_by_label("head", exact=True).focus()
    page.get_by_label("head", exact=True).select_option("2")

    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "head"


def test_the_map_and_the_panel_have_names(laptop):
    names = laptop.locator("section:visible").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")

    assert names == ["Map of the model", "What the map shows"]
