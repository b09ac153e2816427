"""Readers and escapes given any text: themes, inputs, questions, labels."""

import xml.etree.ElementTree as ET
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trust.amount import cases, try_many
from trust.mutations import HARD_TEXT, change_bytes
from trust.outcomes import assert_one_line

from xray.assets import read_template
from xray.capture.targets.target import parse_input
from xray.data.tokens.tokeniser import mend, split_as_written, split_text
from xray.errors import XRayError
from xray.renderers.sheet.markup import escape_html
from xray.renderers.themes import parse_theme
from xray.text import must_be_spelt_out, show_controls

DARK = read_template("themes/dark.toml")


def theme_or_refusal(text):
    try:
        return parse_theme(text, "my.toml")
    except XRayError as error:
        assert_one_line(error)
        return None


def test_a_changed_theme_is_read_or_refused():
    whole = DARK.encode()
    try_many(2000, lambda chance: theme_or_refusal(change_bytes(chance, whole).decode(errors="replace")))


@cases(500)
@given(text=HARD_TEXT)
def test_any_text_is_no_theme(text):
    assert theme_or_refusal(text) is None


@pytest.mark.parametrize("text", ["a = " + "[" * 50_000, "a = " + "9" * 5_000, "[a." + "b." * 20_000 + "c]"])
def test_a_theme_without_end_is_refused(text):
    assert theme_or_refusal(text) is None


INPUTS = st.one_of(
    HARD_TEXT,
    st.builds(
        "{}{}[{}]{}".format,
        st.sampled_from(["", "x=", "a b=", "="]),
        st.sampled_from(
            ["int64", "float32", "bool", "complex64", "qint8", "bits8", "uint7", "float8_e4m3fn", "nn", ""]
        ),
        st.lists(st.sampled_from(["0", "1", "3", "-1", "99999999999999999999", "", " ", "2"]), max_size=4).map(
            ",".join
        ),
        st.sampled_from(["", "<5", "<0", "<99999999999999999999", "<", "<-1"]),
    ),
)


@cases(1000)
@given(text=INPUTS)
def test_an_input_is_made_or_refused(text):
    try:
        _, tensor = parse_input(text)
    except XRayError as error:
        assert_one_line(error)
    else:
        assert tensor.numel() < 1 << 30


@cases(1500)
@given(text=HARD_TEXT)
def test_any_question_is_cut_into_plain_words(text):
    words = split_text(text)
    assert [word for word in words if any(character.isspace() for character in word) or not word] == []
    assert tuple(word.lower() for word, _ in split_as_written(text)) == words or mend(text) != text or "İ" in text


@cases(1500)
@given(text=HARD_TEXT)
def test_an_escaped_label_is_that_text_once_parsed(text):
    parsed = ET.fromstring(f"<t>{escape_html(text)}</t>")
    assert parsed.text is None or parsed.text.replace("\\\\", "\\") == show_controls(text)
    assert len(parsed) == 0


@cases(1500)
@given(text=HARD_TEXT)
def test_what_is_shown_holds_nothing_to_obey(text):
    assert not any(must_be_spelt_out(character) for character in show_controls(text))


def test_entities_are_text():
    assert unescape(escape_html("&lt;")) == "&lt;"
