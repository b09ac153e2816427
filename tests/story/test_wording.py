import pytest

from xray.renderers.fonts import text_width
from xray.story.layout import line_width
from xray.story.wording import fit_text, plural, spell_share, token_line, wrap, wrap_words


def text_of(line):
    return "".join(run.text for run in line)


def test_a_text_that_fits_stays():
    assert fit_text("ripley", 10, 100, text_width) == "ripley"


def test_a_text_that_does_not_fit_ends_in_an_ellipsis():
    short = fit_text("a" * 90, 10, 60, text_width)
    assert short.endswith("…")
    assert text_width(short, 10) <= 60


def test_short_rows_show_every_token():
    assert text_of(token_line(("who", "?", "<pad>"), 10, 200, text_width)) == "who ? <pad>"


def test_padding_is_quiet():
    assert token_line(("who", "<pad>"), 10, 200, text_width)[1].ink == "quiet"


def test_padding_is_counted_where_it_does_not_fit():
    line = token_line(("who", *["<pad>"] * 9), 10, 120, text_width)
    assert text_of(line) == "who <pad> ×9"


@pytest.mark.parametrize("width", [60, 90, 150, 240])
def test_a_long_row_keeps_to_its_width(width):
    line = token_line((*["expanse"] * 30, "<pad>"), 10, width, text_width)
    assert line_width(line, text_width) <= width


def test_a_long_row_keeps_both_ends():
    words = text_of(token_line(("first", *["middle"] * 30, "last"), 10, 150, text_width))
    assert words.startswith("first")
    assert words.endswith("last")


def test_control_characters_are_spelt_out():
    assert text_of(token_line(("\x1b",), 10, 200, text_width)) == "\\x1b"


def test_lines_break_between_words():
    assert wrap("one two three", 10, text_width("one two", 10), text_width) == ("one two", "three")


def test_what_is_over_the_last_line_becomes_an_ellipsis():
    lines = wrap_words(["saturn"] * 40, 10, 80, text_width, 3)
    assert len(lines) == 3
    assert lines[-1].endswith("…")


@pytest.mark.parametrize(("count", "text"), [(1, "1 row"), (1024, "1,024 rows")])
def test_numbers_agree_with_their_nouns(count, text):
    assert plural(count, "row") == text


@pytest.mark.parametrize(
    ("share", "told", "short"),
    [
        (0.0, "0%", "0%"),
        (0.002, "less than 1%", "<1%"),
        (0.43, "43%", "43%"),
        (0.99, "99%", "99%"),
        (0.998, "more than 99%", ">99%"),
        (1.0, "100%", "100%"),
    ],
)
def test_no_share_is_told_as_all_or_nothing_that_is_not(share, told, short):
    assert (spell_share(share), spell_share(share, short=True)) == (told, short)
