import pytest

from xray.text import show_controls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\x00b", "a\\x00b"),
        ("line\nbreak\ttab", "line\\x0abreak\\x09tab"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\u2028", "\\u2028"),
        ("\udc80", "\\udc80"),
        ("\ufffe", "\\ufffe"),
        ("\U0001fffe", "\\U0001fffe"),
        ("\ufdd0", "\\ufdd0"),
    ],
)
def test_what_could_be_obeyed_or_hidden_is_spelt_out(text, shown):
    assert show_controls(text) == shown


@pytest.mark.parametrize("text", ["what's", "<script>", '"];', "café", "שלום", "日本語", "👩‍🚀", ""])
def test_ordinary_text_stays_as_it_is(text):
    assert show_controls(text) == text


def test_showing_twice_is_showing_once():
    assert show_controls(show_controls("\x1b\u202e")) == show_controls("\x1b\u202e")
