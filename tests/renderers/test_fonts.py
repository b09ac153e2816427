import os
import subprocess
import sys

import pytest

from xray.renderers import fonts
from xray.renderers.fonts import (
    FILES,
    FONT_FOLDER,
    find_missing,
    font_face_css,
    lacks_letters,
    own_fonts,
    subset_font,
    text_width,
    unheard,
)


def test_width_grows_with_size():
    assert text_width("query", 20) == pytest.approx(2 * text_width("query", 10))


def test_bold_is_wider_than_regular():
    assert text_width("8×4×10×8", 18, "bold") > text_width("8×4×10×8", 18)


def test_a_wide_character_that_our_fonts_lack_takes_an_em():
    assert 10 <= text_width("語", 10) <= 11


def test_a_letter_that_our_fonts_lack_takes_less():
    assert 5 < text_width("ש", 10) < 9


@pytest.mark.parametrize("mark", ["\u200d", "\u094d", "\u200e"])
def test_a_mark_that_only_changes_others_takes_no_room(mark):
    assert text_width(f"ש{mark}", 10) == text_width("ש", 10)


@pytest.mark.parametrize("text", ["→ × √ · … − “”", "what's"])
def test_our_fonts_have_what_the_poster_prints(text):
    assert not lacks_letters(text)


@pytest.fixture
def no_system_fonts(monkeypatch):
    monkeypatch.setattr(fonts, "SYSTEM_FOLDERS", ())


@pytest.mark.usefixtures("no_system_fonts")
def test_what_no_font_has_is_found():
    assert find_missing(["a 🚀", "我, b"]) == "我🚀"


@pytest.mark.usefixtures("no_system_fonts")
@pytest.mark.parametrize("text", ["what's 8×4", "a\u0301\u200d\u200e", "a\tb\n", "\x00"])
def test_what_needs_no_glyph_of_its_own_is_not_missed(text):
    assert find_missing([text]) == ""


def test_what_another_font_has_is_not_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "SYSTEM_FOLDERS", (str(tmp_path),))
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "Source.TTF").write_bytes((FONT_FOLDER / FILES["bold"]).read_bytes())
    monkeypatch.setattr(fonts, "advance_widths", lambda weight: ({}, 1000))

    assert find_missing(["query 我"]) == "我"


def test_an_emoji_is_known_to_be_lacking():
    assert lacks_letters("a 🚀")


def test_the_same_letters_give_the_same_font():
    first = subset_font("bold", "0123456789")
    subset_font.cache_clear()
    assert subset_font("bold", "0123456789") == first


def test_a_subset_font_is_small():
    assert len(subset_font("regular", "abcdefghij")) < 8_000


def test_only_used_weights_are_embedded():
    css = font_face_css({"bold": "8×"})
    assert css.count("@font-face") == 1


def test_the_environment_is_put_back(monkeypatch):
    monkeypatch.setenv("FONTCONFIG_FILE", "/mine/fonts.conf")
    with own_fonts():
        assert os.environ["FONTCONFIG_FILE"] != "/mine/fonts.conf"
    assert os.environ["FONTCONFIG_FILE"] == "/mine/fonts.conf"


def test_an_unset_environment_stays_unset(monkeypatch):
    monkeypatch.delenv("FONTCONFIG_FILE", raising=False)
    with own_fonts():
        pass
    assert "FONTCONFIG_FILE" not in os.environ


def test_nothing_is_heard_from_c_code(capfd):
    with unheard():
        os.write(2, b"Fontconfig warning")
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_drawing_says_nothing_and_needs_no_home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    code = "from xray.renderers.sheet.image import draw_dot; print(len(draw_dot('digraph { a }', 'svg', 'dot')) > 0)"
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (done.stdout, done.stderr) == ("True\n", "")
