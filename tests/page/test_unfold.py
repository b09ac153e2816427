"""Blocks unfolded on the map where they stand, the crumbs, the tree beside, bookmarks, and the small map."""

import pytest
from page_helpers import PHONE, rest
from small_blocks import blind_attention, chain_of_layers, flat_chain, model_of

from xray.ir.trace import Trace
from xray.renderers.render import render

LAYER = "view=walk&block=encoder.layers.0%230&phase=inference&turn=2"


@pytest.fixture
def open_page(visit, tmp_path):
    def go(trace, place="", **options):
        path = tmp_path / "unfolded.html"
        path.write_text(render(trace, "html"), encoding="utf-8")
        return visit(path, place, **options)

    return go


def layers(count=5):
    steps, _ = chain_of_layers(count)
    return Trace("Layers", {}, {}, (model_of(*steps),))


def shown(page):
    return page.locator(".unfolded .part > .name").all_text_contents()


def press(page, key):
    page.locator(f".unfolded [data-key='{key}']").focus()
    page.keyboard.press("Enter")


def test_a_touch_of_a_block_unfolds_it_where_it_stands(open_page):
    with open_page(layers(), "#map=1&view=walk") as page:
        node = page.locator("[data-step]").first
        where = node.bounding_box()
        node.click()

        assert shown(page) == ["part0", "part1"]
        frame = page.locator(".unfolded .frame").first.bounding_box()
        assert frame["x"] < where["x"] + where["width"] / 2 < frame["x"] + frame["width"]
        assert page.locator(".unfolded .way").count() == 1
        page.locator(".unfolded [data-fold]").click()
        assert page.locator(".unfolded").count() == 0


@pytest.mark.slow
def test_the_whole_is_opened_down_to_an_operation_by_keyboard(open_page):
    with open_page(layers()) as page:
        page.locator("[data-crumb=whole]").focus()
        page.keyboard.press("Enter")
        assert shown(page) == ["layer0 … layer4"]
        press(page, "1")
        assert shown(page) == ["part0", "part1"]
        press(page, "3")

        assert page.locator("h2.path").inner_text() == "net.layer0.part1"
        assert page.locator("#crumbs li").all_inner_texts() == ["Layers", "layer0", "part1"]
        assert page.evaluate("document.activeElement.dataset.key") == "3"
        page.keyboard.press("Escape")
        assert page.locator(".unfolded").count() == 0


@pytest.mark.slow
def test_each_of_those_that_are_alike_can_be_shown(open_page):
    with open_page(layers(), "#view=walk&block=whole&open=1") as page:
        assert page.locator(".unfolded .number").text_content() == "1 of 5 alike"
        page.locator(".unfolded [data-by='1']").click()

        assert page.locator(".unfolded .number").text_content() == "2 of 5 alike"
        assert "open=4" in page.url


@pytest.mark.slow
def test_a_step_that_is_chosen_elsewhere_is_opened_to(open_page):
    with open_page(layers(), "#view=walk&block=whole") as page:
        page.evaluate("location.hash = '#view=step&block=whole&step=net.layer3.part1%230'")

        assert page.locator(".unfolded .number").text_content() == "4 of 5 alike"
        assert page.locator(".unfolded .chosen .name").text_content() == "part1"


@pytest.mark.slow
def test_arrows_go_from_part_to_part(open_page):
    with open_page(layers(), "#view=walk&block=net.layer2%230") as page:
        page.locator(".unfolded .part").first.focus()
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.querySelector('.name').textContent") == "part1"
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.querySelector('.name').textContent") == "part0"


@pytest.mark.slow
def test_all_can_be_opened_and_closed(open_page):
    with open_page(layers()) as page:
        page.locator("[data-crumb=open]").click()
        assert shown(page) == ["part0", "part1"]
        page.locator("[data-crumb=close]").click()
        assert shown(page) == ["layer0 … layer4"]
        page.locator("[data-crumb=close]").click()
        assert page.locator(".unfolded").count() == 0


@pytest.mark.slow
def test_an_address_leads_back_to_what_was_open(at):
    page = at(f"#{LAYER}")

    assert page.locator(".unfolded .head .name").first.text_content() == "encoder.layers.0"
    assert {"self_attention", "feed_forward"} <= set(shown(page))
    page.locator("[data-crumb=close]").click()
    page.go_back()
    assert page.locator(".unfolded .head .name").first.text_content() == "encoder.layers.0"


@pytest.mark.slow
def test_a_panel_of_the_poster_unfolds_the_block_that_it_is_drawn_for(at):
    page = at("#view=walk&station=2&phase=inference&turn=2")
    box = page.locator("[data-pass=encode][data-step='encoder.layers.0.self_attention.softmax#0']").bounding_box()
    page.mouse.click(box["x"] - 16, box["y"] + box["height"] + 3)

    assert page.locator(".unfolded .head .name").first.text_content() == "encoder.layers.0.self_attention"
    assert "softmax" in shown(page)


@pytest.mark.slow
def test_what_was_touched_stays_where_it_is(open_page):
    with open_page(layers(), "#view=walk&block=whole") as page:
        before = rest(page).locator(".unfolded [data-key='1']").bounding_box()
        page.locator(".unfolded [data-key='1']").click()
        after = rest(page).locator(".unfolded .frame .frame").bounding_box()

        assert after["x"] + after["width"] / 2 == pytest.approx(before["x"] + before["width"] / 2, abs=3)
        assert after["y"] + after["height"] == pytest.approx(before["y"] + before["height"], abs=3)


@pytest.mark.slow
def test_the_map_is_seen_again_as_before_when_a_block_is_folded(open_page):
    with open_page(layers()) as page:
        rest(page)
        before = page.locator(".drawing").bounding_box()
        page.locator("[data-crumb=whole]").click()
        page.locator("[data-crumb=close]").click()
        rest(page)

        assert page.locator(".drawing").bounding_box() == pytest.approx(before, abs=1)


@pytest.mark.slow
def test_very_many_neighbours_open_in_groups(open_page):
    trace = Trace("Flat", {}, {}, (model_of(*flat_chain(700, [f"op{number % 97}" for number in range(700)])),))
    with open_page(trace, "#view=walk&block=whole") as page:
        assert 1 < page.locator(".unfolded .part").count() <= 40
        page.locator(".unfolded .part").last.focus()
        page.keyboard.press("Enter")
        assert page.locator(".unfolded .frame .frame .part").count() > 1


def test_the_tree_opens_by_keyboard_and_shows_what_is_chosen(open_page):
    with open_page(layers(), "#view=walk") as page:
        item = page.locator("[role=treeitem]").first
        item.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".tree .name").all_inner_texts()[1:] == ["part0", "part1"]
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.locator("h2.path").inner_text() == "net.layer0.part0"


@pytest.mark.slow
def test_the_tree_of_the_chatbot_opens_to_the_chosen_step(at):
    page = at("#view=tree&step=encoder.layers.1.self_attention.softmax%230&phase=inference&turn=2")

    assert page.locator(".tree .chosen > .line .name").inner_text() == "softmax"
    assert page.locator(".tree [role=treeitem]").count() < 80


@pytest.mark.slow
def test_a_bookmark_is_kept_in_the_address_and_in_the_browser(open_page):
    with open_page(layers(), "#view=step&step=net.layer3.part1%230") as page:
        page.locator("[data-crumb=mark]").click()
        assert "marks=" in page.url
        page.evaluate("location.hash = ''")
        page.reload()
        page.wait_for_selector("html[data-ready=yes]")
        page.locator("#tab_walk").click()
        page.locator(".marks button").click()
        assert page.locator("h2.path").inner_text() == "net.layer3.part1"
        page.evaluate("localStorage.clear()")


@pytest.mark.slow
def test_a_page_without_storage_keeps_bookmarks_in_the_address(open_page):
    with open_page(layers(), "#view=step&step=net.layer3.part1%230") as page:
        page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})")
        page.reload()
        page.wait_for_selector("html[data-ready=yes]")
        page.locator("[data-crumb=mark]").click()
        assert page.locator("[data-crumb=mark]").get_attribute("aria-pressed") == "true"


@pytest.mark.slow
def test_the_small_map_is_there_where_not_all_is_seen(at):
    page = at("#view=walk&station=5")
    small = page.locator("#minimap")
    small.wait_for(state="visible")
    before = page.locator(".drawing").bounding_box()
    box = small.bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    rest(page)
    assert page.locator(".drawing").bounding_box()["y"] > before["y"]
    page.locator("#whole").click()
    small.wait_for(state="hidden")


@pytest.mark.slow
def test_a_phone_has_no_small_map_and_unfolds_at_a_size_to_read(visit, page_file):
    with visit(page_file, f"#{LAYER}", PHONE) as page:
        rest(page)
        assert not page.locator("#minimap").is_visible()
        assert page.locator(".unfolded .part").first.bounding_box()["height"] > 50


@pytest.mark.slow
def test_a_model_without_a_poster_unfolds_too(open_page):
    trace = Trace("Blind", {}, {}, (model_of(*blind_attention()),))
    with open_page(trace, "#view=walk&block=whole") as page:
        assert page.locator(".unfolded .part").count() > 1


@pytest.mark.slow
def test_a_dropout_that_is_off_is_said_to_hand_on_the_same_tensor(at):
    page = at("#view=walk&block=encoder.layers.0.self_attention%230&phase=inference&turn=2")
    part = page.locator(".unfolded .part", has_text="Dropout").first

    assert part.locator(".does").text_content() == "hands on the same tensor"
    assert page.locator(".unfolded .part", has_text="Softmax").locator(".does").text_content().startswith("softmax")
