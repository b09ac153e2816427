"""The table of decode turns: one row for each, its end kept where not all words fit."""

import pytest
from recorded import recorded
from rich.console import Console

from xray.renderers.table.turns import CACHED, READS, draw_turns, last_words
from xray.renderers.table.words import UNICODE, Words
from xray.renderers.themes import load_theme
from xray.story.walk.turns import list_turns


@pytest.fixture(scope="module")
def words():
    return Words(load_theme(), UNICODE)


def draw(words, width):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(*draw_turns(list_turns(recorded("one layer")), words, width), sep="\n")
    return [line.split() for line in capture.get().splitlines()]


def test_each_turn_is_a_row_that_ends_with_its_shapes(words):
    assert draw(words, 88)[3] == ["3", "<sos>", "flies", "and", "and", "3", "1×1×3×3", "1×4×3×3", "1×4×3×9"]


def test_cross_attention_makes_way_where_there_is_no_room(words):
    assert draw(words, 62)[3] == ["3", "<sos>", "flies", "and", "and", "3", "1×1×3×3", "1×4×3×3"]


def test_narrow_screens_get_a_list(words):
    assert draw(words, 24)[-1] == ["→", "the"]


def test_what_was_read_keeps_its_end(words):
    assert last_words(("<sos>", "she", "flies", "the", "nostromo"), 16, words).plain == "… the nostromo"


def test_what_fits_is_shown_whole(words):
    assert last_words(("<sos>", "she", "flies"), 15, words).plain == "<sos> she flies"


@pytest.mark.parametrize(("name", "heading"), [("cached", CACHED), ("one layer", READS)])
def test_the_words_of_a_turn_are_called_what_they_are(words, name, heading):
    console = Console(width=160, color_system=None)
    with console.capture() as capture:
        console.print(*draw_turns(list_turns(recorded(name)), words, 150), sep="\n")

    assert [one for one in (READS, CACHED) if one in capture.get()] == [heading]
