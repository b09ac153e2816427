"""The map: the poster itself, moved by wheel, drag, touch, buttons and keys."""

import pytest
from page_helpers import PHONE, rest

from xray.renderers.fonts import text_width
from xray.renderers.page.map import map_id
from xray.story.poster import compose_poster

WATCH_PLACES = """() => {
  window.places = new Set();
  const look = () => {
    places.add(document.querySelector("svg.drawing").style.transform);
    requestAnimationFrame(look);
  };
  look();
}"""


def window(page):
    """What part of the drawing is seen: left, top, width, height."""
    rest(page)
    return page.evaluate(
        """() => {
          const drawing = document.querySelector("svg.drawing");
          const [left, top, width] = drawing.getAttribute("viewBox").split(" ").map(Number);
          const seen = drawing.getBoundingClientRect();
          const stage = document.getElementById("stage").getBoundingClientRect();
          const unit = width / seen.width;
          return [left + (stage.left - seen.left) * unit, top + (stage.top - seen.top) * unit,
                  stage.width * unit, stage.height * unit];
        }"""
    )


def test_every_step_of_the_poster_is_a_node_of_the_map(laptop, page_trace):
    known = {map_id(one_pass, step) for one_pass in page_trace.passes for step in one_pass.steps}
    drawn = [box.id for box in compose_poster(page_trace, text_width).boxes if box.id in known]

    assert laptop.locator("[data-step]").count() == len(drawn) > 100


def test_at_first_the_whole_poster_is_seen(laptop):
    box = laptop.locator("svg.drawing [data-step]").first.bounding_box()
    stage = laptop.locator("#stage").bounding_box()
    _, _, width, height = window(laptop)

    assert stage["x"] <= box["x"] <= stage["x"] + stage["width"]
    assert height > 1500
    assert width / height == pytest.approx(stage["width"] / stage["height"], rel=0.01)


def test_the_wheel_comes_closer_to_what_is_under_it(laptop):
    before = window(laptop)
    laptop.mouse.move(300, 300)
    laptop.mouse.wheel(0, -400)
    after = window(laptop)

    assert after[2] < before[2]
    stage = laptop.locator("#stage").bounding_box()
    share = (300 - stage["x"]) / stage["width"]
    assert after[0] + after[2] * share == pytest.approx(before[0] + before[2] * share, abs=2)


@pytest.mark.slow
def test_dragging_moves_the_map_with_the_hand(laptop):
    before = window(laptop)
    laptop.mouse.move(300, 300)
    laptop.mouse.down()
    laptop.mouse.move(360, 340, steps=4)
    laptop.mouse.up()
    after = window(laptop)

    stage = laptop.locator("#stage").bounding_box()
    assert before[0] - after[0] == pytest.approx(60 * before[2] / stage["width"], rel=0.05)
    assert before[1] - after[1] == pytest.approx(40 * before[3] / stage["height"], rel=0.05)


@pytest.mark.slow
def test_a_drag_is_no_touch(laptop):
    node = laptop.locator("[data-step='encoder.layers.0.self_attention.softmax#0'][data-pass=training]").bounding_box()
    laptop.mouse.move(node["x"] + 5, node["y"] + 5)
    laptop.mouse.down()
    laptop.mouse.move(node["x"] + 45, node["y"] + 45, steps=4)
    laptop.mouse.up()

    assert laptop.locator("[role=tab][aria-selected=true]").inner_text() == "Walk"


@pytest.mark.slow
def test_two_fingers_zoom(visit, page_file):
    with visit(page_file, size=PHONE, has_touch=True) as page:
        before = window(page)
        page.evaluate(
            """() => {
              const stage = document.getElementById('stage');
              const send = (kind, id, x, y) => (kind === 'pointerdown' ? stage : window).dispatchEvent(new PointerEvent(
                kind, {pointerId: id, pointerType: 'touch', clientX: x, clientY: y, bubbles: true}));
              send('pointerdown', 1, 150, 200); send('pointerdown', 2, 200, 200);
              send('pointermove', 2, 300, 200); send('pointerup', 1, 150, 200); send('pointerup', 2, 300, 200);
            }"""
        )
        after = window(page)

    assert after[2] == pytest.approx(before[2] / 3, rel=0.05)


@pytest.mark.parametrize(("button", "factor"), [("#closer", 1 / 1.5), ("#farther", 1.5)])
@pytest.mark.slow
def test_buttons_zoom(laptop, button, factor):
    before = window(laptop)
    laptop.click(button)

    assert window(laptop)[2] == pytest.approx(before[2] * factor, rel=0.01)


@pytest.mark.slow
def test_a_move_does_not_make_the_drawing_anew(laptop):
    drawn, before = laptop.locator("svg.drawing").get_attribute("viewBox"), window(laptop)
    laptop.mouse.move(300, 300)
    laptop.mouse.wheel(0, -400)

    assert window(laptop) != before
    assert laptop.locator("svg.drawing").get_attribute("viewBox") == drawn


@pytest.mark.slow
def test_the_whole_map_comes_back_by_a_button(laptop):
    before = window(laptop)
    laptop.click("#closer")
    laptop.click("#closer")
    laptop.click("#whole")

    assert window(laptop) == pytest.approx(before, rel=0.01)


def test_keys_zoom_and_pan(laptop):
    laptop.focus("#stage")
    before = window(laptop)
    laptop.keyboard.press("+")
    closer = window(laptop)
    laptop.keyboard.press("Shift+ArrowRight")
    moved = window(laptop)
    laptop.keyboard.press("0")

    assert closer[2] < before[2]
    assert moved[0] > closer[0]
    assert moved[2] == closer[2]
    assert window(laptop) == pytest.approx(before, rel=0.01)


def test_arrows_go_from_node_to_node_and_enter_opens_one(laptop):
    laptop.locator("[data-step='encoder.layers.0.self_attention.scores#0'][data-pass=training]").focus()
    laptop.keyboard.press("ArrowUp")
    focused = laptop.evaluate("document.activeElement.dataset.step")
    laptop.keyboard.press("Enter")

    assert focused == "encoder.layers.0.self_attention.mask#0"
    assert laptop.locator("h2.path").inner_text() == "encoder.layers.0.self_attention.mask"


def test_one_node_is_in_the_way_of_the_tab_key(laptop):
    assert laptop.locator("[data-step][tabindex='0']").count() == 1


def test_a_node_says_its_name_and_shape(laptop):
    node = laptop.get_by_role("button", name="8 × 14 × 950 batch×tgt_len×tgt_vocab")

    assert node.get_attribute("aria-description") == "head"


@pytest.mark.slow
def test_both_themes_have_their_own_colours(laptop):
    dark = laptop.evaluate("getComputedStyle(document.querySelector('[data-step] path')).fill")
    page = laptop.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    laptop.click("#theme")

    assert laptop.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") != page
    assert laptop.evaluate("document.documentElement.dataset.theme") == "light"
    assert dark == "rgb(102, 45, 145)"


@pytest.mark.slow
def test_a_reader_whose_system_is_light_gets_the_light_theme(visit, page_file):
    with visit(page_file, color_scheme="light") as page:
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.slow
@pytest.mark.parametrize(("motion", "jumps"), [("reduce", True), ("no-preference", False)])
def test_the_map_glides_where_motion_is_not_to_be_reduced(visit, page_file, motion, jumps):
    with visit(page_file, reduced_motion=motion) as page:
        rest(page).evaluate(WATCH_PLACES)
        page.keyboard.press("ArrowRight")
        rest(page)

        assert page.evaluate("places.size == 2") == jumps
        assert page.evaluate("places.size") >= 2


def test_a_node_under_the_pointer_is_named(laptop):
    laptop.locator("[data-step='head#0'][data-pass=training]").hover()

    assert laptop.locator("#hint").inner_text() == "head"
