"""`xray theme`, and themes of one's own in every command that paints."""

import pytest

from xray.assets import read_template
from xray.cli.app import run
from xray.cli.screen.painting import LARGEST
from xray.ir.json_form import trace_to_json

DARK = read_template("themes/dark.toml")
PALE = DARK.replace('quiet = "#BDBBE6"', 'quiet = "#2D2B56"')


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trace_file(inference_trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    path.write_text(trace_to_json(inference_trace), encoding="utf-8")
    return str(path)


def test_the_themes_are_listed(capsys):
    assert run(["theme"]) == 0
    assert capsys.readouterr().out == "dark\nlight\n"


def test_a_theme_goes_to_stdout(capsys):
    assert run(["theme", "dark"]) == 0
    assert capsys.readouterr().out == DARK


def test_a_copy_is_written_and_can_be_used(here, trace_file, capsys):
    assert run(["theme", "light", "-o", "my.toml"]) == 0
    assert "xray trace --theme my.toml" in capsys.readouterr().err
    (here / "my.toml").write_text((here / "my.toml").read_text().replace("#662D91", "#123456"))

    assert run(["draw", trace_file, "--theme", "my.toml", "-q", "-o", "poster.svg"]) == 0
    assert "#123456" in (here / "poster.svg").read_text()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "command",
    [
        ["draw", "{trace}", "-q", "-o", "out.svg"],
        ["page", "{trace}", "-o", "out.html"],
        ["attention", "{trace}", "-o", "out.svg"],
        ["worksheet", "{trace}", "-o", "out.svg"],
        ["walk", "{trace}", "--station", "3"],
    ],
)
def test_every_command_that_paints_takes_a_theme_file(here, trace_file, capsys, command):
    (here / "my.toml").write_text(DARK, encoding="utf-8")

    assert run([part.format(trace=trace_file) for part in command] + ["--theme", "my.toml"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_a_theme_that_is_hard_to_read_is_used_with_one_line_of_warning(here, trace_file, capsys):
    (here / "pale.toml").write_text(PALE, encoding="utf-8")

    assert run(["draw", trace_file, "--theme", "pale.toml", "-q", "-o", "poster.svg"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(
        "xray: warning: the theme pale.toml is hard to read: quiet text on page: contrast 1.4:1, below 4.5:1."
    )
    assert said[1:] == ["wrote poster.svg"]


def test_a_check_names_every_weakness(here, capsys):
    (here / "pale.toml").write_text(PALE, encoding="utf-8")

    assert run(["theme", "pale.toml", "--check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("quiet text on page") for line in lines)


@pytest.mark.parametrize("name", ["dark", "light"])
def test_a_check_of_a_good_theme_is_content(capsys, name):
    assert run(["theme", name, "--check"]) == 0
    assert capsys.readouterr().out == "Every text, line and cell can be read and told apart.\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "xray: cannot read my.toml: no such file or directory. To make it: xray theme dark -o my.toml"),
        (b"\xff\xfe", "xray: my.toml is not text in UTF-8. Start from a copy: xray theme dark -o my.toml"),
        (b"name = ", "xray: my.toml is not TOML: "),
        (b"name = 'mine'", "xray: my.toml misses `font`."),
        (
            DARK.replace("#BDBBE6", "lilac").encode(),
            "xray: my.toml surface.page.quiet='lilac' is no colour. Write six",
        ),
        (DARK.replace("ribbon ", "riband ").encode(), "xray: my.toml [line] has the unknown field `riband`."),
        (
            DARK.replace('font = "Source Sans Pro"\n', 'font = "Comic Sans"\n', 1).encode(),
            "xray: my.toml: font='Comic Sans' is no font that X-Ray brings along and can measure. Choose among Source",
        ),
        (b"#" * (LARGEST + 1), "xray: my.toml is too large for a theme, more than 1,000,000 bytes. Name a theme file."),
    ],
)
def test_a_theme_file_that_cannot_be_used_is_one_line(here, trace_file, capsys, content, message):
    if content is not None:
        (here / "my.toml").write_bytes(content)

    assert run(["draw", trace_file, "--theme", "my.toml", "-q", "-o", "poster.svg"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(message)
    assert not (here / "poster.svg").exists()


def test_a_folder_is_no_theme(here, trace_file, capsys):
    (here / "my.toml").mkdir()

    assert run(["draw", trace_file, "--theme", "my.toml"]) == 1
    assert capsys.readouterr().err.startswith("xray: cannot read my.toml: is a directory.")


def test_a_copy_or_a_check_needs_a_name(capsys):
    assert run(["theme", "-o", "my.toml"]) == 2
    assert capsys.readouterr().err.startswith("xray: which theme? Name one, as in: xray theme dark -o my.toml")


def test_an_unknown_theme_is_refused(capsys):
    assert run(["theme", "pink"]) == 1
    assert "no theme named 'pink'. Choose dark or light, or a theme file of your own" in capsys.readouterr().err
