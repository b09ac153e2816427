"""The page of a model that is drawn by blocks: folds, closed blocks, many passes, very many steps."""

import pytest
from small_blocks import blind_attention, chain_of_layers, flat_chain, model_of

from xray.ir.trace import Pass, Trace
from xray.renderers.render import render


@pytest.fixture
def open_page(visit, tmp_path):
    def go(trace, place="", **options):
        path = tmp_path / "blocks.html"
        path.write_text(render(trace, "html", **options), encoding="utf-8")
        return visit(path, place)

    return go


def layers(count=5):
    steps, _ = chain_of_layers(count)
    return Trace("Layers", {}, {}, (model_of(*steps),))


def chosen(page):
    return page.locator(".chosen").evaluate_all("all => all.map(one => one.dataset.step)")


def test_a_step_of_a_folded_layer_is_shown_on_the_layer_that_is_drawn(open_page):
    with open_page(layers(), "#view=step&step=net.layer3.part1%230") as page:
        assert page.locator("h2.path").inner_text() == "net.layer3.part1"
        assert chosen(page) == ["net.layer0.part1#0"]


def test_a_step_of_a_closed_block_is_shown_on_the_block(open_page):
    with open_page(layers(), "#view=step&step=net.layer3.part1%230", depth=1) as page:
        assert chosen(page) == ["net.layer0#0"]


def test_a_step_of_a_bundle_is_shown_on_the_bundle(open_page):
    trace = Trace("Flat", {}, {}, (model_of(*flat_chain(300, [f"op{number}" for number in range(300)])),))
    with open_page(trace, "#view=step&step=net.op7%230") as page:
        assert len(chosen(page)) == 1


def test_all_passes_of_a_loop_share_one_drawing(open_page):
    one = layers(2).passes[0]
    trace = Trace("Loop", {}, {}, tuple(Pass("forward", number, {}, one.steps) for number in range(4)))
    with open_page(trace) as page:
        page.locator("#turn").fill("3")

        assert page.locator("[data-step]").count() == 2
        assert page.locator(".other_phase").count() == 0
        page.locator("[data-step]").first.click()
        assert page.locator("h2.path").inner_text() == "net.layer0.part0"


def test_a_found_step_lights_the_node_that_stands_for_it(open_page):
    with open_page(layers()) as page:
        page.keyboard.press("/")
        page.locator("#query").fill("layer4.part0")
        assert page.locator(".found").evaluate_all("all => all.map(one => one.dataset.step)") == ["net.layer0.part0#0"]


def test_of_very_many_found_the_first_are_listed(open_page):
    trace = Trace("Flat", {}, {}, (model_of(*flat_chain(700, ["linear", "relu"])),))
    with open_page(trace) as page:
        page.keyboard.press("/")
        page.locator("#query").fill("net.")
        assert page.locator(".steps [data-id]").count() == 200


@pytest.mark.slow
def test_twelve_thousand_steps_open_and_can_be_searched(open_page):
    ops = [f"op{number * number % 9973}" for number in range(12_000)]
    trace = Trace("Flat", {}, {}, (model_of(*flat_chain(12_000, ops)),))
    with open_page(trace) as page:
        page.keyboard.press("/")
        page.locator("#query").fill("net.op11999")
        assert page.locator("#found [role=status]").inner_text() == "1 step found here"


def test_a_blind_row_is_told_with_its_step(open_page):
    trace = Trace("Blind", {}, {}, (model_of(*blind_attention()),))
    with open_page(trace, "#view=step&step=net.hide%230") as page:
        assert page.locator(".warning").inner_text().startswith("1 of the 2 rows of the scores (1, 2, 3) see nothing")


def test_levels_of_blocks_are_opened_and_closed_on_the_page(open_page):
    with open_page(layers()) as page:
        assert page.locator("#maps button").all_inner_texts() == ["1", "2"]
        assert page.locator("#maps [aria-pressed=true]").inner_text() == "2"
        page.locator("#maps button").first.click()

        drawn = page.locator("[data-step]").evaluate_all("all => all.map(one => one.dataset.step)")
        assert drawn == ["net.layer0#0"]
        page.locator("[data-step]").click()
        assert page.locator("h2.path").inner_text() == "net.layer0"


def test_a_chosen_step_stays_chosen_when_blocks_are_closed(open_page):
    with open_page(layers(), "#view=step&step=net.layer3.part1%230") as page:
        page.locator("#maps button").first.click()
        assert chosen(page) == ["net.layer0#0"]
        page.locator("#maps button").last.click()
        assert chosen(page) == ["net.layer0.part1#0"]


def test_an_address_leads_back_to_the_level(open_page):
    with open_page(layers(), "#map=1") as page:
        assert page.locator("#maps [aria-pressed=true]").inner_text() == "1"


def test_a_model_of_one_level_has_no_levels_to_choose_from(open_page):
    trace = Trace("Flat", {}, {}, (model_of(*flat_chain(3, ["linear", "relu"])),))
    with open_page(trace) as page:
        assert not page.locator("#maps").is_visible()
