"""Stations of any model, and the page on paper."""

import pytest
from recorded import recorded

from xray.renderers.render import render
from xray.story.walk.tour import list_stops


@pytest.fixture
def open_llama(visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render(recorded("Llama, inference"), "html"), encoding="utf-8")
    return lambda place: visit(path, place)


def test_the_stations_of_another_model_are_those_of_its_sheet(open_llama):
    stops = list_stops(recorded("Llama, inference"))
    with open_llama("#view=walk") as page:
        numbers = page.locator("#rail .station").all_inner_texts()
        page.locator(f"#rail [data-number='{stops[1].chapter.station}']").click()

        assert numbers == [str(stop.chapter.station) for stop in stops]
        assert stops[1].chapter.title in page.locator("#views h2").inner_text()
        assert page.locator(".drawing .chosen[data-step]").count() > 5


def test_on_paper_every_station_is_told(at, page_trace):
    page = at("#phase=inference&turn=2")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    titles = page.locator("#handout h2").all_inner_texts()

    assert [title.split()[0] for title in titles] == [str(number) for number in range(1, 10)]
    assert page.locator("#handout").is_visible()
    assert not page.locator(".panel").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#handout").count() == 0
    page.emulate_media(media="screen")


def test_the_ninth_station_shows_the_loop_and_not_its_neighbour(at):
    page = at("#station=9&phase=inference&turn=2")

    assert page.locator(".drawing .chosen[data-step]").count() == 0
    assert page.locator(".drawing .station.chosen").count() > 0


def test_the_likeliest_words_stay_where_they_are_from_turn_to_turn(at):
    page = at("#station=8&phase=inference&turn=1")
    tops = []
    for turn in (1, 2, 4):
        page.locator("#turn").fill(str(turn))
        tops.append(page.locator(".candidates").bounding_box()["y"])

    assert len(set(tops)) == 1


@pytest.mark.slow
def test_on_paper_the_map_stands_without_buttons_and_with_all_its_phases(at):
    page = at("#phase=inference&turn=2")
    page.emulate_media(media="print")
    faint = page.locator(".drawing .other_phase").evaluate_all(
        "all => all.filter(one => getComputedStyle(one).opacity !== '1').length"
    )

    assert page.locator("button:visible").count() == 0
    assert page.locator(".drawing .other_phase").count() > 10
    assert faint == 0
    page.emulate_media(media="screen")
