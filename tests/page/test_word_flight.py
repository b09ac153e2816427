"""The camera goes to a chosen word where it is out of view; where it is seen, or a hand is on the map, it stays."""

import pytest
from page_helpers import find_pass, record_family, rest

from xray.renderers.render import render

CROSS = "#view=attention&attention=cross&phase=inference&turn=4"


def window(page):
    rest(page)
    return page.locator(".drawing").bounding_box()


def is_in_window(page, box):
    stage = page.locator("#stage").bounding_box()
    return (
        stage["x"] <= box["x"]
        and box["x"] + box["width"] <= stage["x"] + stage["width"]
        and stage["y"] <= box["y"]
        and box["y"] + box["height"] <= stage["y"] + stage["height"]
    )


def lit_in_window(page):
    rest(page)
    return sum(is_in_window(page, one.bounding_box()) for one in page.locator(".lit_word").all())


def leave(page):
    """Come close to a corner of the map where no words are."""
    box = page.locator("[data-step='decoder.layers.0.feed_forward.expand#0'][data-pass=training]").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -1200)
    rest(page)


def test_a_word_of_the_matrix_is_gone_to_when_it_is_out_of_view(at):
    page = at(CROSS)
    leave(page)
    page.locator(".large .word.touchable").nth(2).click()
    near = window(page)["width"]

    assert lit_in_window(page) >= 1
    page.locator(".lines .query").nth(1).click()
    assert window(page)["width"] == pytest.approx(near, rel=0.01)


@pytest.mark.slow
def test_a_word_that_is_seen_moves_nothing(at):
    page = at(CROSS)
    before = window(page)
    page.locator(".large .word.touchable").nth(2).click()

    assert lit_in_window(page) >= 1
    assert window(page) == before


@pytest.mark.slow
def test_the_map_stays_where_the_reader_moved_it_after_the_word_was_chosen(at):
    page = at(CROSS)
    page.locator(".large .word.touchable").nth(2).click()
    leave(page)
    before = window(page)
    page.locator(".multiple").nth(1).focus()
    page.locator("#tab_masks").click()

    assert window(page) == before


@pytest.mark.slow
def test_a_flight_to_a_word_ends_where_the_reader_takes_the_map(visit, page_file):
    with visit(page_file, CROSS, reduced_motion="no-preference") as page:
        leave(page)
        page.locator(".large .word.touchable").nth(2).click()
        page.mouse.move(300, 400)
        page.mouse.down()
        page.mouse.move(310, 400)
        page.wait_for_timeout(50)
        held = page.locator(".drawing").bounding_box()
        page.wait_for_timeout(600)
        after = page.locator(".drawing").bounding_box()
        page.mouse.up()

        assert after == held


@pytest.mark.slow
def test_a_word_that_is_asked_for_is_found_and_gone_to(at, page_trace):
    page = at("#view=find&phase=inference&turn=4")
    leave(page)
    word = find_pass(page_trace, "decode", 4).tokens["decoder_input"][0][1]
    page.fill("#query", word)
    assert page.locator("#found .answer").first.inner_text().startswith(f"“{word}” is word")
    page.get_by_role("button", name="to this word").click()

    assert page.locator(".large .chosen_row").count() == 1
    assert lit_in_window(page) >= 1


@pytest.mark.slow
def test_where_the_map_has_no_words_the_row_in_the_weights_is_gone_to(visit, tmp_path):
    trace = record_family("GPT-2")
    weights = next(step for step in trace.passes[0].steps if step.op == "softmax" and step.outputs[0].preview)
    path = tmp_path / "page.html"
    path.write_text(render(trace, "html"), encoding="utf-8")
    with visit(path, "#view=attention") as page:
        page.mouse.move(200, 200)
        page.mouse.wheel(0, -1500)
        page.wait_for_timeout(300)
        page.locator(".large .word.touchable").nth(2).click()
        page.wait_for_timeout(300)

        near = page.locator(".near").evaluate_all("all => all.map(one => one.dataset.step)")
    assert weights.id in near
