"""A word about letters that no font on the machine has, before a picture shows boxes."""

from dataclasses import replace
from pathlib import Path

import pytest
from recorded import recorded

from xray.cli.screen.painting import warn_of_letters
from xray.renderers import fonts


@pytest.fixture
def rocket(monkeypatch):
    """A trace with an emoji and Chinese in it, on a machine without any font."""
    monkeypatch.setattr(fonts, "SYSTEM_FOLDERS", ())
    trace = recorded("one layer, inference")
    first = replace(trace.passes[0], tokens={"src": (("who", "🚀", *"我爱北京天"),)})
    return replace(trace, passes=(first, *trace.passes[1:]))


def test_letters_that_no_font_has_are_named_with_the_picture(rocket, capsys):
    warn_of_letters(rocket, [(Path("a.json"), "json"), (Path("a.png"), "png")])

    assert capsys.readouterr().err == (
        "xray: warning: no font on this machine has 京, 北, 天, 我, 爱 and 1 more: boxes stand for them in a.png. "
        "Install one that has, as Noto Sans CJK or Noto Emoji, or write an .svg.\n"
    )


@pytest.mark.parametrize("form", ["svg", "html", "json", "dot", "table"])
def test_what_the_viewer_s_fonts_show_needs_no_word(rocket, capsys, form):
    warn_of_letters(rocket, [(Path("a"), form)])

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("rocket")
def test_letters_that_our_fonts_have_need_no_word(capsys):
    warn_of_letters(recorded("one layer, inference"), [(Path("a.png"), "png")])

    assert capsys.readouterr().err == ""
