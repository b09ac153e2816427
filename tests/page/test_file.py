"""The page as a file: one, small, closed to the outside, and quick to be seen."""

import re

import pytest
from page_helpers import LAPTOP, PHONE, PROJECTOR

from xray.renderers.render import render


def test_the_file_is_under_three_megabytes(page_file):
    assert page_file.stat().st_size < 3_000_000


def test_the_file_names_no_other_place(page_file):
    text = page_file.read_text(encoding="utf-8")
    places = set(re.findall(r"https?://[^\s\"'<)]+", text))

    assert places == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"} & places


def test_the_policy_refuses_what_is_not_the_page_itself(laptop):
    policy = laptop.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")

    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_a_script_that_came_later_does_not_run(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    ran = page.evaluate(
        "() => { const late = document.createElement('script'); late.textContent = 'window.ran = 1';"
        " document.body.append(late); return window.ran ?? 0; }"
    )
    page.close()

    assert ran == 0


def test_no_element_has_a_handler_or_a_style_of_its_own(page_file):
    text = page_file.read_text(encoding="utf-8")
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)

    assert re.findall(r"<[^>]+\s(on\w+|style)=", markup) == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE, PROJECTOR], ids=["laptop", "phone", "projector"])
@pytest.mark.slow
def test_nothing_sticks_out_of_the_screen(at, size):
    page = at("#phase=inference&turn=3&station=5&step=decoder.layers.0.self_attention.softmax%230", size)
    for view in ("walk", "step", "attention", "masks", "find"):
        page.click(f"#tab_{view}")
        panel = page.evaluate("(panel => [panel.scrollWidth, panel.clientWidth])(document.querySelector('.panel'))")

        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], view
        assert panel[0] <= panel[1], view


def test_the_same_trace_gives_the_same_page(training_trace):
    assert render(training_trace, "html") == render(training_trace, "html")


def test_the_page_says_how_much_it_left_out(laptop):
    assert re.search(r"[\d,]+ of the [\d,]+ numbers that the steps made", laptop.locator("#about").inner_text())


@pytest.mark.slow
def test_sixty_steps_leave_the_page_no_larger(laptop):
    def count():
        return laptop.evaluate("document.querySelectorAll('*').length")

    def go_round():
        for _ in range(8):
            laptop.keyboard.press("ArrowRight")
        for _ in range(8):
            laptop.keyboard.press("ArrowLeft")

    go_round()
    before = count()
    for _ in range(4):
        go_round()

    assert count() == before
