"""The performance: the page opens with the run itself, moment by moment, with the numbers that were recorded."""

import re

import pytest
from page_helpers import find_pass, find_step

START = "#"
SHOWN = "#view=show&moment={}"


@pytest.fixture(scope="session")
def image_file(tmp_path_factory):
    """The page of a residual network, with values."""
    from xray.capture.targets.page_values import preview_for_page
    from xray.capture.targets.target import run_target
    from xray.renderers.render import render
    from xray.sources.loading import load_source
    from xray.sources.request import Request

    trace = run_target(load_source("examples/resnet.py:build", Request()), preview_for_page).trace
    path = tmp_path_factory.mktemp("image") / "page.html"
    path.write_text(render(trace, "html"), encoding="utf-8")
    return path


def titles(page):
    """What every moment is called, with what it says."""
    count = int(page.get_attribute("#show_time", "max"))
    found = {}
    for _ in range(count):
        page.keyboard.press("ArrowRight")
        found.setdefault(page.inner_text("#show_title"), []).append(page.inner_text("#show_text"))
    return found


def painted(page):
    """The picture as it is now."""
    return page.evaluate("document.getElementById('show_canvas').toDataURL()")


def test_the_page_opens_with_the_question_and_one_play(at, page_trace):
    page = at(START)

    assert page.inner_text("#show_asked") == page_trace.config["question"]
    assert [one.inner_text() for one in page.locator("main button:visible").all()] == ["▶ Play"]


def test_play_leads_to_the_words(at, page_trace):
    page = at(START)
    page.click("#show_start")

    assert page.inner_text("#show_title") == "Words"
    assert page.inner_text("#show_text").startswith(f"{len(find_pass(page_trace, 'encode').tokens['src'][0])} words")
    assert "Pause" in page.inner_text("#show_play")


@pytest.mark.slow
def test_every_turn_ends_with_its_recorded_word(at, page_trace):
    said = titles(at(START))["The word goes round"]
    words = [one.tokens["new"][0][0] for one in page_trace.passes if one.kind == "decode"]

    assert len(said) == len([word for word in words if word != "<eos>"]) > 0
    assert all(f"“{word}”" in text for word, text in zip(words, said, strict=False))


@pytest.mark.slow
def test_the_share_that_is_said_was_recorded(at, page_trace):
    (said,) = titles(at(START))["Shares of one whole"][:1]
    head = int(re.search(r"head (\d+)", said)[1])
    weights = find_step(page_trace, "encoder.layers.0.self_attention.softmax", "encode").outputs[0].preview
    each = weights.shape[2] * weights.shape[3]

    assert f"{max(weights.values[(head - 1) * each : head * each]):.1%}".replace("%", " %") in said


def test_a_cell_under_the_pointer_says_its_recorded_value(at, page_trace):
    page = at(SHOWN.format(3))
    box = page.locator("#show_canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    told = page.inner_text("#show_hint")
    words = find_step(page_trace, "encoder.embedding.words", "encode").outputs[0].preview
    row, column, value = re.fullmatch(r"(.*), number (\d+): (.*)", told).groups()
    place = find_pass(page_trace, "encode").tokens["src"][0].index(row)

    assert float(value) == pytest.approx(words.values[place * 32 + int(column) - 1], rel=1e-3)


def test_arrows_step_and_the_count_follows(at):
    page = at(SHOWN.format(4))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")

    assert page.inner_text("#show_count").startswith("5 of ")
    assert "moment=5" in page.evaluate("location.hash")


@pytest.mark.slow
def test_scrubbing_leads_anywhere(at):
    page = at(SHOWN.format(1))
    page.locator("#show_time").fill("8")

    assert page.inner_text("#show_title") == "Every query meets every key"


def test_the_map_shows_where_a_moment_happens_and_back_leads_back(at):
    page = at(SHOWN.format(8))
    page.click("#show_map")

    assert page.locator("#rail [aria-current=step]").inner_text() == "2"
    assert page.locator("#phases [aria-pressed=true]").inner_text().lower() == "inference"
    page.go_back()
    page.wait_for_selector("#show:not([hidden])")
    assert page.inner_text("#show_title") == "Every query meets every key"


def test_with_reduced_motion_moments_are_stills(at):
    page = at(SHOWN.format(5))
    page.click("#show_next")
    page.click("#show_play")
    first = painted(page)
    page.wait_for_timeout(200)

    assert painted(page) == first


@pytest.mark.slow
def test_without_it_they_move_and_pause_holds_them(visit, page_file):
    with visit(page_file, SHOWN.format(4), reduced_motion="no-preference") as page:
        page.click("#show_play")
        page.wait_for_timeout(300)
        first = painted(page)
        page.wait_for_timeout(300)
        second = painted(page)
        page.click("#show_play")
        held = painted(page)
        page.wait_for_timeout(300)

        assert first != second
        assert painted(page) == held


@pytest.mark.slow
def test_the_wrong_way_is_told_beside_the_right_one(at):
    said = titles(at(START))["The wrong way: a view without the transpose"]

    assert len(said) == 1
    assert "no error would be raised" in said[0]


@pytest.mark.slow
def test_a_residual_network_performs_its_tensors(visit, image_file):
    with visit(image_file, START) as page:
        page.click("#show_start")

        assert "2×3×32×32" in page.inner_text("#show_text")
        said = " ".join(text for texts in titles(page).values() for text in texts)
        assert "classify: 2×64 becomes 2×10, 650 parameters." in said


def test_without_values_the_page_opens_with_the_map(visit, tmp_path):
    from recorded import recorded

    from xray.renderers.render import render

    path = tmp_path / "page.html"
    path.write_text(render(recorded("Llama, inference"), "html"), encoding="utf-8")
    with visit(path, START) as page:
        assert not page.locator("#show").is_visible()
        assert not page.locator("#ways").is_visible()
        assert page.locator("#stage").is_visible()
