"""The walk in the page: nine stations, told with the words and numbers of the run."""

import pytest
from page_helpers import rest, sizes

from xray.story.walk.scene import list_scenes, plain
from xray.story.walk.telling import write_chapters


def heading(page):
    return page.locator("#views h2").inner_text()


def chapters(trace, phase, turn=0):
    scene = next(one for one in list_scenes(trace) if (one.phase, one.turn) == (phase, turn))
    return write_chapters(scene)


@pytest.mark.parametrize(("phase", "turn"), [("training", 0), ("inference", 2)])
@pytest.mark.slow
def test_every_station_tells_its_chapter(at, page_trace, phase, turn):
    page = at(f"#phase={phase}&turn={turn}")
    told_of = chapters(page_trace, phase, turn)

    assert len(told_of) == 9
    for chapter in told_of:
        page.click(f"#rail [data-number='{chapter.station}']")
        told = page.locator("#views > p").all_inner_texts()

        assert told[: len(chapter.text)] == [plain(text).strip() for text in chapter.text]


@pytest.mark.parametrize("station", [1, 4, 6, 8])
def test_questions_open_to_their_answers(at, page_trace, station):
    page = at(f"#station={station}")
    answers = chapters(page_trace, "training")[station - 1].answers

    assert answers
    for place, answer in enumerate(answers):
        page.locator("summary").nth(place).click()
        assert page.locator("summary").nth(place).inner_text() == answer.question
        assert page.locator("details p").nth(place).inner_text() == plain(answer.text)


@pytest.mark.parametrize(("station", "topic"), [(2, "hidden score"), (3, "layer norm"), (6, "cross-attention")])
@pytest.mark.slow
def test_where_the_texts_disagree_all_sides_are_shown(at, page_trace, station, topic):
    page = at(f"#station={station}")
    debate = next(one for one in chapters(page_trace, "training")[station - 1].debates if topic in one.topic)
    shown = page.locator(".debate", has_text=debate.topic)

    assert shown.locator("li").count() == len(debate.opinions) >= 2
    assert shown.locator("li.used").count() == 1
    assert shown.locator("code").all_text_contents() == [one.example for one in debate.opinions]


def test_arrow_keys_walk_on_and_back(laptop):
    laptop.keyboard.press("ArrowRight")
    laptop.keyboard.press("ArrowRight")
    there = heading(laptop)
    laptop.keyboard.press("ArrowLeft")

    assert "feed-forward" in there
    assert "encoder self-attention" in heading(laptop)


@pytest.mark.slow
def test_buttons_walk_on_and_back(laptop):
    laptop.click("[aria-label='Next station']")
    there = heading(laptop)
    laptop.click("[aria-label='Station before']")

    assert "encoder self-attention" in there
    assert "question in" in heading(laptop)


@pytest.mark.slow
def test_the_walk_ends_where_it_ends(laptop):
    for _ in range(12):
        laptop.keyboard.press("ArrowRight")

    assert laptop.locator("#rail [aria-current=step]").inner_text() == "9"


def test_a_station_can_be_chosen_on_the_map(laptop):
    laptop.locator("[data-station='6'].station").first.click()

    assert "cross-attention" in heading(laptop)


@pytest.mark.slow
def test_the_station_is_announced(laptop):
    laptop.keyboard.press("ArrowRight")

    assert laptop.locator("#said").inner_text() == "Station 2: encoder self-attention"


@pytest.mark.slow
def test_the_steps_of_a_station_are_marked_on_the_map(at):
    page = at("#station=5")
    chosen = page.locator("[data-step].chosen").evaluate_all("nodes => nodes.map(node => node.dataset.step)")

    assert "decoder.layers.0.self_attention.scores#0" in chosen
    assert all(name.startswith("decoder.layers.0") for name in chosen)


def test_a_step_of_the_walk_opens(at, page_trace):
    page = at("#station=2")
    page.click(".steps [data-id='encoder.layers.0.self_attention.scores#0']")

    assert page.locator("h2.path").inner_text() == "encoder.layers.0.self_attention.scores"


def test_a_link_keeps_station_phase_turn_layer_and_head(at):
    page = at("#station=6&phase=inference&turn=4&layer=2&head=3&view=attention&attention=cross")

    assert page.locator("#rail [aria-current=step]").inner_text() == "6"
    assert page.locator("#phases [aria-pressed=true]").inner_text().lower() == "inference"
    assert page.input_value("#turn") == "4"
    assert page.locator(".large").get_attribute("data-layer") == "2"
    assert page.locator(".large").get_attribute("data-head") == "3"


def test_the_address_follows_the_reader(laptop):
    laptop.click("[data-phase=inference]")
    laptop.keyboard.press("ArrowRight")
    place = laptop.evaluate("location.hash")

    assert "station=2" in place
    assert "phase=inference" in place


@pytest.mark.slow
def test_a_link_followed_within_the_page_leads_there(laptop):
    laptop.evaluate("location.hash = '#station=8'")
    rest(laptop)

    assert "out" in heading(laptop)


@pytest.mark.parametrize("place", ["#station=99", "#phase=sleep", "#turn=77&phase=inference", "#view=x", "#%zz=1&a"])
@pytest.mark.slow
def test_a_broken_link_leads_somewhere(at, place):
    page = at(place)

    assert page.locator("#views h2").count() == 1


@pytest.mark.slow
def test_shapes_stand_in_the_text_in_colour(at, page_trace):
    page = at("#station=2")
    shape = page.locator("#views > p .shape").first
    record = page_trace.passes[0].by_id["encoder.layers.0.self_attention.query#0"].outputs[0]

    assert shape.inner_text() == sizes(record)
    assert shape.locator("b").evaluate_all("all => all.map(one => one.dataset.axis)") == list(record.axes)


@pytest.mark.slow
def test_another_layer_can_be_walked(at):
    page = at("#station=5")
    page.get_by_label("layer", exact=True).select_option("2")
    page.locator(".steps button").first.click()

    assert page.locator("h2.path").inner_text() == "decoder.layers.2.self_attention.query"


def test_a_link_to_a_step_leads_to_its_station_too(at):
    page = at("#view=step&step=decoder.layers.0.cross_attention.softmax%230")

    assert page.locator("#rail [aria-current=step]").inner_text() == "6"
