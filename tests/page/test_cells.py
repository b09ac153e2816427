"""Tensors as cells on the map: there when one comes near, the recorded numbers, and gone when one is far."""

import re

import pytest
from page_helpers import PHONE, find_step, record_family, rest

from xray.renderers.render import render

SCORES = "encoder.layers.0.self_attention.scores#0"
AT_SCORES = "#view=step&step=encoder.layers.0.self_attention.scores%230&phase=inference&turn=2"


def come_near(page):
    page.get_by_role("button", name="come near on the map").click()
    rest(page)


def shown(page):
    """The steps whose boxes show cells."""
    return page.locator(".near[data-step]").evaluate_all("all => all.map(one => one.dataset.step)")


def hover(page, box, across, down):
    """Point at a place in a box, in shares of its size, and read what is said of the cell there."""
    where = box.bounding_box()
    page.mouse.move(where["x"] + across * where["width"], where["y"] + down * where["height"])
    return page.locator(".near_says").inner_text()


def painted(page):
    """How many colours there are in the cells."""
    return page.evaluate(
        """() => {
          const canvas = document.querySelector(".near_cells");
          const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const found = new Set();
          for (let at = 0; at < data.length; at += 4) if (data[at + 3]) found.add(data.slice(at, at + 3).join());
          return found.size;
        }"""
    )


def test_a_box_shows_its_cells_when_one_comes_near_and_its_words_alone_when_one_is_far(at):
    page = at(AT_SCORES)
    assert page.locator(".near").count() == page.locator(".near_cells").count() == 0
    come_near(page)
    assert SCORES in shown(page)
    assert painted(page) > 20
    page.click("#whole")
    page.wait_for_selector(".near_cells", state="detached")

    assert page.locator(".near").count() == 0


def test_the_cell_under_the_pointer_says_its_dot_product(at, page_trace):
    page = at(AT_SCORES)
    come_near(page)
    said = hover(page, page.locator(f".near[data-pass=encode][data-step='{SCORES}']"), 0.5, 0.5)
    scores = find_step(page_trace, "encoder.layers.0.self_attention.scores", "encode").outputs[0]
    found = re.fullmatch(r"scores, head (\d), “(.*)”, “(.*)”: (.*) = (\S+)", said)
    words = find_pass_words(page_trace)
    row, column = words.index(found[2]), words.index(found[3])

    expected = scores.preview.rows(0, int(found[1]) - 1)[row][column]
    assert float(found[5]) == pytest.approx(expected, rel=1e-3)
    assert "·" in found[4]


def find_pass_words(trace):
    return next(one for one in trace.passes if one.kind == "encode").tokens["src"][0]


@pytest.mark.slow
def test_scores_scaled_scores_mask_and_softmax_stand_together(at):
    page = at(AT_SCORES)
    come_near(page)
    page.mouse.move(300, 400)
    page.mouse.wheel(0, 250)
    rest(page)
    steps = [step.rsplit(".", 1)[-1] for step in shown(page)]

    assert {"scores#0", "mask#0", "softmax#0"} <= set(steps)
    box = page.locator(f".near[data-pass=encode][data-step='{SCORES}']")
    said = {hover(page, box, share / 20, down / 10).split(",")[0] for share in range(8, 20) for down in range(1, 10)}
    assert {"scores", "scale"} <= said


@pytest.mark.slow
def test_the_words_of_a_box_can_be_read_beside_its_cells(at):
    page = at(AT_SCORES)
    come_near(page)
    texts = page.locator(f".near[data-pass=encode][data-step='{SCORES}'] > text")
    heights = [texts.nth(place).bounding_box()["height"] for place in range(texts.count())]

    assert all(10 < height < 40 for height in heights)


@pytest.mark.slow
def test_cells_move_with_the_map_and_are_not_painted_anew_on_the_way(at):
    page = at(AT_SCORES)
    come_near(page)
    before = page.locator(".near_cells").first.bounding_box()
    page.mouse.move(300, 400)
    page.mouse.down()
    page.mouse.move(340, 430)
    page.wait_for_timeout(50)
    after = page.locator(".near_cells").first.bounding_box()
    page.mouse.up()

    assert (after["x"] - before["x"], after["y"] - before["y"]) == pytest.approx((40, 30), abs=1)


@pytest.mark.slow
def test_an_unfolded_operation_shows_its_cells(at):
    page = at(f"{AT_SCORES}&block=encoder.layers.0.self_attention%230")
    come_near(page)

    assert "scores" in page.locator(".unfolded .near > .name").all_text_contents()
    assert hover(page, page.locator(".unfolded .near.chosen"), 0.6, 0.7).startswith("scores, head")


@pytest.mark.slow
def test_on_a_phone_one_comes_as_near(at):
    page = at(AT_SCORES, PHONE)
    page.locator("#views button", has_text="come near").evaluate("one => one.click()")
    rest(page)

    assert SCORES in shown(page)


@pytest.mark.slow
def test_a_hidden_cell_says_that_the_mask_hides_it(at):
    page = at("#view=step&step=decoder.layers.0.self_attention.softmax%230&phase=inference&turn=4")
    come_near(page)
    box = page.locator(".near[data-pass=decode][data-step='decoder.layers.0.self_attention.softmax#0']")
    said = [hover(page, box, share / 40, 0.4) for share in range(12, 39)]

    assert any(text.endswith("0, hidden by the mask") for text in said)


@pytest.mark.slow
def test_without_values_a_near_box_keeps_its_words(visit, tmp_path, both_trace):
    path = tmp_path / "plain.html"
    path.write_text(render(both_trace, "html"), encoding="utf-8")
    with visit(path, "#view=step&step=encoder.layers.0.feed_forward.expand%230") as page:
        for _ in range(6):
            page.click("#closer")
        rest(page)

        assert page.locator(".near").count() == 0


@pytest.mark.parametrize("name", ["Llama", "T5", "ViT", "BERT"])
@pytest.mark.slow
def test_any_model_that_ran_with_values_has_cells_where_they_were_recorded(visit, tmp_path, name):
    trace = record_family(name)
    steps = trace.passes[0].steps
    weights = next(step for step in steps if step.op == "softmax" and step.outputs[0].preview)
    path = tmp_path / "page.html"
    path.write_text(render(trace, "html"), encoding="utf-8")
    with visit(path, f"#view=step&step={weights.id.replace('#', '%23')}") as page:
        come_near(page)
        near = set(shown(page))
        bare = {step.id for step in steps if not any(one.preview or one.mask for one in step.outputs)}

        assert weights.id in near
        assert not near & bare
