"""The page on a phone: the map has most of the screen, what is told lies in a drawer; on its side both stand beside."""

import pytest
from page_helpers import PHONE, rest
from recorded import recorded

from xray.renderers.render import render

ON_ITS_SIDE = {"width": 844, "height": 390}
VIEWS = ("walk", "step", "attention", "masks", "tree", "find")


@pytest.fixture
def phone(at):
    return at("#view=walk&station=5&phase=inference&turn=3", PHONE)


def height(page, selector):
    return page.locator(selector).bounding_box()["height"]


def small_buttons(page):
    """What is too small for a finger: what it says and its size."""
    return page.locator("button:visible:not(.link), select:visible, summary:visible").evaluate_all(
        "all => all.map(one => [one.textContent, one.offsetWidth, one.offsetHeight])"
        ".filter(([, width, height]) => width < 44 || height < 44)"
    )


def smallest_text(page):
    """How high the smallest words of the chosen nodes are drawn."""
    heights = page.locator(".drawing .chosen text").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().height).filter(high => high > 0)"
    )
    return min(heights)


def test_the_map_has_most_of_the_screen(at):
    page = at("#view=walk", PHONE)

    assert height(page, "#stage") > 0.55 * PHONE["height"]
    assert page.locator("#views h2").is_visible()


def test_the_drawer_comes_up_by_its_handle_and_goes_down_again(phone):
    heights = []
    for _ in range(3):
        phone.click("#handle")
        heights.append(height(phone, "#panel"))

    assert heights[2] < heights[0] < heights[1]
    assert heights[1] > 0.7 * PHONE["height"]
    assert phone.get_attribute("#handle", "aria-expanded") == "false"


@pytest.mark.slow
def test_the_drawer_is_drawn_up_by_hand(phone):
    box = phone.locator("#handle").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    phone.mouse.move(x, y)
    phone.mouse.down()
    phone.mouse.move(x, y - 150, steps=4)
    phone.mouse.move(x, y - 250, steps=4)
    phone.mouse.up()

    assert phone.evaluate("document.body.dataset.drawer") == "half"
    phone.click("#handle")
    assert phone.evaluate("document.body.dataset.drawer") == "full"


def test_a_tab_brings_its_view_up(phone):
    phone.click("#tab_attention")

    assert height(phone, "#panel") > 0.4 * PHONE["height"]
    assert phone.locator(".large .grid").is_visible()


@pytest.mark.slow
def test_the_map_is_as_large_when_the_drawer_is_down_again(phone):
    before = phone.locator(".drawing .chosen").first.bounding_box()
    for _ in range(3):
        phone.click("#handle")
        rest(phone)
    after = phone.locator(".drawing .chosen").first.bounding_box()

    assert after == pytest.approx(before, abs=2)


@pytest.mark.parametrize("size", [PHONE, ON_ITS_SIDE], ids=["upright", "on its side"])
def test_a_station_is_large_enough_to_read(at, size):
    page = at("#station=5", size)
    rest(page)

    assert smallest_text(page) >= 9


@pytest.mark.parametrize("size", [PHONE, ON_ITS_SIDE], ids=["upright", "on its side"])
@pytest.mark.slow
def test_everything_is_large_enough_for_a_finger_and_within_the_screen(at, size):
    page = at("#view=walk&phase=inference&turn=3&step=decoder.layers.0.self_attention.softmax%230", size)
    for view in VIEWS:
        page.click(f"#tab_{view}")

        assert (view, small_buttons(page)) == (view, [])
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], view
    page.evaluate("location.hash = '#view=show&moment=9'")
    page.locator("#show_play").wait_for()
    assert [one for one in small_buttons(page) if not one[0].isdigit()] == []


@pytest.mark.parametrize("size", [PHONE, ON_ITS_SIDE, {"width": 1000, "height": 700}], ids=["upright", "side", "wide"])
def test_the_bar_of_levels_covers_nothing_of_the_map(visit, tmp_path, size):
    path = tmp_path / "page.html"
    path.write_text(render(recorded("Llama, inference"), "html"), encoding="utf-8")
    with visit(path, "#view=walk", size) as page:
        bar, stage = page.locator(".map_head").bounding_box(), page.locator("#stage").bounding_box()

        assert page.locator("#maps").is_visible()
        assert bar["y"] + bar["height"] <= stage["y"] + 0.5
