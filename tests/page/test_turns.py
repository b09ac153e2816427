"""Training or inference, and the turns of inference: one switch, one slider, everything changes together."""

import pytest
from page_helpers import find_pass, find_step, sizes
from playwright.sync_api import expect

from xray.story.walk.turns import list_candidates


def test_the_switch_changes_shapes_and_words(laptop, page_trace):
    before = laptop.locator(".steps .shape").first.inner_text()
    laptop.click("[data-phase=inference]")

    assert before == sizes(find_step(page_trace, "tokenize.src", "training").outputs[0])
    assert laptop.locator(".steps .shape").first.inner_text() == sizes(
        find_step(page_trace, "tokenize.src", "encode").outputs[0]
    )


def test_the_switch_quiets_the_nodes_of_the_other_phase(laptop):
    training = laptop.locator("[data-pass=training].other_phase")
    quiet = training.count()
    laptop.click("[data-phase=inference]")

    assert quiet == 0
    assert training.count() == laptop.locator("[data-pass=training]").count() > 50


@pytest.mark.slow
def test_training_has_no_slider(laptop):
    assert not laptop.locator("#turns").is_visible()


@pytest.mark.parametrize("turn", [1, 3, 5])
def test_the_slider_changes_the_shapes_on_the_map(at, page_trace, turn):
    page = at("#phase=inference")
    page.locator("#turn").fill(str(turn))
    node = page.locator("[data-pass=decode][data-step='decoder.layers.0.self_attention.scores#0']")
    record = find_step(page_trace, "decoder.layers.0.self_attention.scores", "decode", turn).outputs[0]

    assert "".join(node.locator("[data-axis]").all_text_contents()) == "".join(map(str, record.shape))


@pytest.mark.parametrize("turn", [1, 2, 5])
def test_the_slider_changes_the_words(at, page_trace, turn):
    page = at("#phase=inference")
    page.locator("#turn").fill(str(turn))
    tokens = find_pass(page_trace, "decode", turn).tokens

    assert page.locator("#turn_words").inner_text() == " → ".join(
        (" ".join(tokens["decoder_input"][0]), tokens["new"][0][0])
    )


def test_the_slider_changes_the_mask(at):
    page = at("#phase=inference&view=masks&station=5")
    cells = []
    for turn in (2, 4):
        page.locator("#turn").fill(str(turn))
        cells.append(page.locator(".grid .cell").count())

    assert cells == [2 * 2, 4 * 4]


@pytest.mark.slow
def test_the_slider_changes_the_attention(at):
    page = at("#phase=inference&view=attention&attention=cross")
    cells = []
    for turn in (2, 4):
        page.locator("#turn").fill(str(turn))
        cells.append(page.locator(".large .cell").count())

    assert cells[1] == 2 * cells[0]


@pytest.mark.parametrize("turn", [1, 4])
def test_the_likeliest_words_are_shown_with_their_probabilities(at, page_trace, turn):
    page = at(f"#phase=inference&turn={turn}&station=8")
    expected = list_candidates(find_pass(page_trace, "decode", turn))
    words = page.locator(".candidates .name").all_inner_texts()
    shares = page.locator(".candidates li > span:last-child").all_inner_texts()

    assert words == [word for word, _ in expected]
    assert float(shares[0].rstrip("%")) == pytest.approx(expected[0][1] * 100, abs=0.06)


@pytest.mark.slow
def test_play_goes_through_the_turns_and_stops(at):
    page = at("#phase=inference&turn=3")
    page.click("#play")
    playing = page.locator("#play").get_attribute("aria-pressed")

    assert playing == "true"
    expect(page.locator("#turn")).to_have_value("4")
    expect(page.locator("#turn")).to_have_value("5")
    expect(page.locator("#play")).to_have_attribute("aria-pressed", "false")


@pytest.mark.slow
def test_pause_stays_where_it_is(at):
    page = at("#phase=inference")
    page.click("#play")
    page.click("#play")
    page.wait_for_timeout(1600)

    assert page.input_value("#turn") == "1"


@pytest.mark.slow
def test_a_step_stays_chosen_from_turn_to_turn(at, page_trace):
    page = at("#phase=inference&turn=2&view=step&step=decoder.layers.1.self_attention.scale%230")
    page.locator("#turn").fill("5")
    record = find_step(page_trace, "decoder.layers.1.self_attention.scale", "decode", 5).outputs[0]

    assert page.locator(".records").last.locator(".shape").inner_text() == sizes(record)
