"""Words in terminal cells: cut, kept apart and broken where it hurts least."""

import pytest
from rich.cells import cell_len
from rich.text import Text

from xray.renderers.table.words import ASCII, UNICODE, Words, flow
from xray.renderers.themes import load_theme
from xray.text import say_at_least, say_short


@pytest.fixture(scope="module")
def words():
    return Words(load_theme(), UNICODE)


def plain(lines):
    return [line.plain for line in lines]


def test_a_word_that_fits_stays(words):
    assert words.word("nostromo", 8) == "nostromo"


def test_a_long_word_ends_in_an_ellipsis(words):
    assert words.word("interstellar", 6) == "inter…"


@pytest.mark.parametrize("width", range(1, 12))
def test_wide_characters_are_cut_by_cells(words, width):
    assert cell_len(words.word("日本語のことば", width)) <= width


def test_words_from_right_to_left_leave_their_neighbours_alone(words):
    assert words.word("שלום", 9) == "\u2068שלום\u2069"


def test_ascii_words_are_spelt_out():
    assert Words(load_theme(), ASCII).word("café", 9) == "caf\\xe9"


def test_pieces_share_a_line_while_they_fit():
    assert plain(flow([Text("8×4×10×8,"), Text("8×4×8×10"), Text("→ 8×4×10×10")], 20)) == [
        "8×4×10×8, 8×4×8×10",
        "→ 8×4×10×10",
    ]


def test_a_shape_wider_than_the_line_breaks_after_a_times_sign():
    assert plain(flow([Text("1009×4×1013×8")], 8)) == ["1009×4×", "1013×8"]


def test_a_number_wider_than_the_line_is_still_shown_whole():
    assert "".join(plain(flow([Text("123456789")], 4))) == "123456789"


@pytest.mark.parametrize(
    ("count", "short"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00 k"),
        (12_345, "12.3 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (10**20, "100 E"),
    ],
)
def test_large_numbers_are_said_in_three_digits(count, short):
    assert say_short(count) == short


@pytest.mark.parametrize(
    ("count", "short"), [(7, "7 B"), (1_239, "1.23 kB"), (999_999, "999 kB"), (2_079 * 10**9, "2.07 TB")]
)
def test_what_is_at_least_so_much_is_rounded_down(count, short):
    assert say_at_least(count, "B") == f"at least {short}"


def test_a_unit_follows_the_letter():
    assert (say_short(10_240, "B"), say_short(7, "B")) == ("10.2 kB", "7 B")
