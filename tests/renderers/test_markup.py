import pytest

from xray.renderers.sheet.markup import clean, escape_html, ink, write_run
from xray.renderers.themes import load_theme
from xray.story.layout import Run


@pytest.mark.parametrize("text", ["<script>", "<b>&amp;</b>", '"];', "]]>"])
def test_no_bare_markup_is_left(text):
    escaped = escape_html(text)
    assert not set('<>"[]') & set(escaped)


def test_backslashes_are_doubled_so_that_dot_expands_nothing():
    assert escape_html(r"\N") == "&#92;&#92;N"


def test_control_characters_are_spelt_out():
    assert escape_html("\x1b[0m") == "&#92;&#92;x1b&#91;0m"


def test_a_tooltip_keeps_its_lines():
    assert clean("a\nb") == "a\\nb"


def test_a_tooltip_takes_backslashes_literally():
    assert clean(r"\G") == r"\\G"


def test_digits_take_the_hue_of_their_axis():
    theme = load_theme()
    assert ink("axis:tgt_len", "page", theme) == theme.axes["on_dark"]["tgt_len"]


def test_accents_darken_on_light_panels():
    theme = load_theme()
    assert ink("accent:encoder", "encoder_panel", theme) == theme.accents_on_light["encoder"]


@pytest.mark.parametrize("text", ["שלום", "robot مرحبا"])
def test_a_line_with_right_to_left_words_begins_at_the_left(text):
    assert f">&#8206;{text}<" in write_run(Run(text, 11), "page", load_theme(), 1)


def test_other_text_gets_no_direction():
    assert ">你好 robot<" in write_run(Run("你好 robot", 11), "page", load_theme(), 1)
