from itertools import combinations

import pytest

from xray.renderers.fonts import text_width
from xray.story.regions.column_words import MOST_STEPS, Span, place_words, search, staircase

QUESTION = ("what's", "your", "favourite", "character", "in", "the", "expanse", "series", "?")


def spans_of(words, cell):
    return [
        Span(cell * (place + 0.5), start, start + text_width(word, 11), step)
        for place, (word, start, step) in enumerate(place_words(text_width, words, cell))
    ]


@pytest.mark.parametrize("words", [QUESTION, ("<sos>", *["expanse"] * 12), ("<pad>",) * 16, ("?",)])
@pytest.mark.parametrize("cell", [12.5, 14.0, 17.0])
def test_no_word_touches_a_word_or_a_leader(words, cell):
    assert [pair for pair in combinations(spans_of(words, cell), 2) if pair[0].touches(pair[1])] == []


def test_short_words_stand_in_one_row():
    assert {step for _, _, step in place_words(text_width, ("a", "b", "c"), 17)} == {0}


def test_a_question_needs_few_steps():
    assert max(step for _, _, step in place_words(text_width, QUESTION, 14)) < MOST_STEPS


def test_every_word_stands_under_its_column():
    assert all(span.start <= span.leader <= span.end for span in spans_of(QUESTION, 14))


def test_no_words_need_no_place():
    assert place_words(text_width, (), 14) == []


def test_what_cannot_be_found_is_given_up():
    assert search([200.0] * 9, 12.5, 2) is None


def test_a_staircase_always_works():
    spans = staircase([200.0] * 9, 12.5)
    assert not any(one.touches(other) for one, other in combinations(spans, 2))
