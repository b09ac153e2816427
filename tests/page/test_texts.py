"""What stands on the map beside nodes: words, ids, ledgers and the memory answer touches, chances follow the turn."""

import pytest


def touch(page, text):
    page.locator("[data-about]", has_text=text).first.dispatch_event("click")


def test_the_memory_chooses_the_step_that_made_it_and_the_ledger_lights_up(at):
    page = at("#view=walk&phase=inference&turn=2")
    touch(page, "MEMORY")

    assert page.locator("h2.path").inner_text().startswith("encoder.layers.")
    assert page.locator("[data-phase=inference]").get_attribute("aria-pressed") == "true"
    assert page.locator(".drawing [data-about].chosen", has_text="LAYER OUTPUT").count() == 1
    assert page.locator(".drawing [data-step].chosen").count() == 1


@pytest.mark.slow
def test_words_and_ids_choose_the_step_that_cut_them(at, page_trace):
    page = at("#view=walk&phase=inference&turn=2")
    word = page_trace.passes_of("encode")[0].tokens["src"][0][0]
    for text in (word, "IDS"):
        page.locator(".words[data-of=encode], .note[data-of=encode]", has_text=text).first.dispatch_event("click")
        assert page.locator("h2.path").inner_text() == "tokenize.src"
        page.locator("#tab_walk").click()


@pytest.mark.slow
def test_the_map_says_what_the_turn_that_is_looked_at_could_have_said(at, page_trace):
    page = at("#view=walk&station=8&phase=inference&turn=3")

    assert page.locator(".drawing text", has_text="TURN 3 COULD HAVE SAID").count() == 1
    best = page.locator(".candidates .name").first.inner_text()
    title = page.locator(".drawing .note", has_text="COULD HAVE SAID")
    shown = title.evaluate("one => one.nextElementSibling.textContent.trim()")
    assert shown.rstrip("…") == best[: len(shown.rstrip("…"))]


@pytest.mark.slow
def test_a_word_of_a_picture_on_the_map_is_chosen_and_lit_everywhere(at, page_trace):
    page = at("#view=attention&attention=encoder&phase=inference&turn=2")
    words = [word for word in page_trace.passes_of("encode")[0].tokens["src"][0] if word.isalpha()]
    drawn = page.locator(".drawing [data-word]").evaluate_all("all => all.map(one => one.dataset.word)")
    word = next(one for one in words if one in drawn)
    text = page.locator(".drawing [data-word]").nth(drawn.index(word))
    text.dispatch_event("click")

    assert page.locator(".query.lit_word").text_content() == word
    assert page.locator(".drawing .lit_word").count() >= 2
    text.dispatch_event("click")
    assert page.locator(".drawing .lit_word").count() == 0


@pytest.mark.slow
def test_a_word_of_another_picture_leads_to_the_attention_in_which_it_asks(at, page_trace):
    page = at("#view=walk&phase=training")
    answer = page_trace.passes_of("decode")[-1].tokens["decoder_input"][0]
    word = next(one for one in answer[1:] if one not in page_trace.passes[0].tokens["decoder_input"][0])
    page.locator(f".drawing [data-word='{word}']").first.dispatch_event("click")

    assert page.locator("[data-phase=inference]").get_attribute("aria-pressed") == "true"
    assert page.locator("[data-kind=decoder]").get_attribute("aria-pressed") == "true"
    assert page.locator(".query.lit_word").text_content().startswith(word)


def test_bars_and_words_of_chances_are_known_by_their_marks(at, page_trace):
    page = at("#view=walk&station=8&phase=inference&turn=3")
    chances = page.locator(".candidates li span:last-child").all_text_contents()
    shown = page.locator(".drawing .chance_share").all_text_contents()
    widths = page.locator(".drawing .chance_bar path").evaluate_all("all => all.map(one => one.getBBox().width)")
    full = page.locator(".candidates .name").all_text_contents()

    assert [one.strip() for one in shown] == [chance.replace(" ", "") for chance in chances[: len(shown)]]
    assert widths == sorted(widths, reverse=True)
    words = page.locator(".drawing .chance_word").evaluate_all("all => all.map(one => one.dataset.word)")
    assert words == full[: len(words)]
