"""“What if” on the page: two recordings beside each other, what differs marked, each change a way to the map."""

from pathlib import Path

import pytest
from conftest import make_once
from page_helpers import LAPTOP, PHONE, find_pass, rest, sizes

from xray.ir.work import add_up_multiplications
from xray.renderers.render import render

pytestmark = pytest.mark.slow
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("kv-cache", "no-cross-mask", "no-scale")


@pytest.fixture(scope="session")
def twins(untrained_run):
    return {name: untrained_run.trace("both", max_turns=5, values="page", twin=name) for name in NAMES}


@pytest.fixture(scope="session")
def twins_file(page_trace, twins, tmp_path_factory):
    def fill(folder):
        (folder / "page.html").write_text(render(page_trace, "html", twins=twins), encoding="utf-8")

    return make_once(tmp_path_factory, "twins", fill) / "page.html"


@pytest.fixture
def see(visit, twins_file):
    return lambda place, size=LAPTOP, **options: visit(twins_file, f"#view=twins&{place}", size, **options)


def test_three_twins_leave_the_page_small(twins_file):
    assert twins_file.stat().st_size < 4_000_000


def test_a_page_without_twins_has_no_such_view(laptop):
    assert laptop.locator("#tab_twins").count() == 0


def test_the_work_of_each_turn_stands_beside_the_twins(see, page_trace, twins):
    with see("phase=inference&turn=3") as page:
        row = page.locator("[aria-label='In work'] tr.here")
        counts = [f"{add_up_multiplications(find_pass(one, 'decode', 3)):,}" for one in (page_trace, twins["kv-cache"])]

        assert row.locator("th").inner_text() == "turn 3"
        assert all(count in row.inner_text() for count in counts)
        assert "3×3" in row.inner_text()
        assert "→ 1×3" in row.inner_text()


def test_the_words_of_each_turn_stand_beside_the_twins(see, page_trace, twins):
    with see("phase=inference&turn=2&twin=2") as page:
        row = page.locator("[aria-label='In words'] tr.here").inner_text()
        for one in (page_trace, twins["no-scale"]):
            assert find_pass(one, "decode", 2).tokens["new"][0][0] in row


def test_a_change_flies_to_its_step_and_the_view_stays(see):
    with see("phase=inference&turn=3&twin=2") as page:
        page.click(".twin_changes button:has-text('cross_attention.scale')")
        rest(page)

        assert page.locator("#tab_twins").get_attribute("aria-selected") == "true"
        assert "step=decoder.layers.0.cross_attention.scale" in page.evaluate("location.hash")
        assert page.locator(".drawing .chosen").count() > 0
        assert page.locator(".twin_changes [aria-current=true]").count() == 1


def test_shapes_are_those_of_both_recordings(see, page_trace, twins):
    path = "decoder.layers.0.self_attention.scores#0"
    shapes = [find_pass(one, "decode", 3).by_id[path].outputs[0] for one in (page_trace, twins["kv-cache"])]
    with see("phase=inference&turn=3") as page:
        page.click(".twin_changes + details summary")
        line = page.locator(".twin_changes button:has-text('self_attention.scores')").first.inner_text()

        assert all(sizes(one) in line.replace("\n", "") for one in shapes)


def test_what_differs_is_outlined_on_the_map_while_the_view_is_open(see):
    with see("phase=inference&turn=3&twin=2") as page:
        assert page.locator(".drawing .differs").count() > 0
        page.click("#tab_walk")

        assert page.locator(".drawing .differs").count() == 0


def test_cells_of_a_mask_that_differ_are_framed(see):
    with see("phase=training&twin=1") as page:
        grids = page.locator(".twin_both").first.locator(".grid")

        assert grids.count() == 2
        assert grids.nth(0).locator(".mask_hidden.differs").count() > 0
        assert grids.nth(0).locator(".differs").count() == grids.nth(1).locator(".mask_visible.differs").count()


def test_another_twin_is_chosen_by_keyboard_and_stands_in_the_address(see):
    with see("phase=inference&turn=2") as page:
        page.focus("[data-twin='2']")
        page.keyboard.press("Enter")

        assert page.locator("[data-twin='2']").get_attribute("aria-pressed") == "true"
        assert "twin=2" in page.evaluate("location.hash")
        page.go_back()
        assert page.locator("[data-twin='0']").get_attribute("aria-pressed") == "true"


def test_a_turn_of_the_table_leads_there(see):
    with see("phase=training") as page:
        page.click("[aria-label='In work'] button:has-text('turn 4')")

        assert "turn 4" in page.locator("#turn_name").inner_text()


def test_the_handout_has_every_twin(see):
    with see("") as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")

        told = page.locator("#handout .twin_handout h2").all_inner_texts()
        page.emulate_media(media="screen")

        assert told == [f"What if: {name}" for name in NAMES]


def test_nothing_is_wider_than_a_phone(see):
    with see("phase=inference&turn=3", PHONE) as page:
        assert page.evaluate(
            "document.querySelector('#views').scrollWidth <= document.querySelector('#views').clientWidth"
        )


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm install")
@pytest.mark.parametrize(("theme", "size"), [("dark", LAPTOP), ("light", LAPTOP), ("dark", PHONE)])
def test_axe_finds_nothing(see, theme, size):
    with see("", size, color_scheme=theme) as page:
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for place in ("phase=inference&turn=3", "phase=inference&turn=3&twin=2", "phase=training&twin=1"):
            page.evaluate("place => { location.hash = `view=twins&${place}`; }", place)
            rest(page)
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]

            assert [(place, one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found] == []
