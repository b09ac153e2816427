"""The terminal: its background is asked for safely, texts can be read on it, and long ones go through a pager."""

import os
import re
import select
import subprocess
import sys
import time

import pytest

from xray.cli.app import run
from xray.cli.screen import background, terminal
from xray.cli.screen.pager import show_long
from xray.ir.json_form import trace_to_json
from xray.renderers.themes import load_theme

posix = pytest.mark.skipif(os.name != "posix", reason="other systems have other terminals")
QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
DEVICE = b"\x1b[?62;22c"
SEEN = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from xray.cli.screen import background
background.PATIENCE_S = float(sys.argv[2])
before = termios.tcgetattr(0)
found = background.has_light_background()
kept = sys.stdin.readline() if sys.argv[3] else ""
open(sys.argv[1], "w").write(repr((found, termios.tcgetattr(0) == before, kept)))
"""


def plain():
    return {**os.environ, "COLORFGBG": "", "PYTHONPATH": os.pathsep.join(sys.path)}


def seen_in_terminal(tmp_path, answer, *, typed=b"", patience=5.0, **environment):
    """What a process takes a terminal that answers so for, whether its modes are as before, and what was typed."""
    ours, theirs = os.openpty()
    if typed:
        os.write(ours, typed)
    told = tmp_path / "told"
    command = [sys.executable, "-c", SEEN, str(told), str(patience), "keys" if typed else ""]
    env = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORFGBG": "",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **environment,
    }
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=env)
    os.close(theirs)
    shown, until = b"", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        if select.select([ours], [], [], 0.05)[0]:
            try:
                shown += os.read(ours, 1024)
            except OSError:
                break
            if QUESTION in shown and answer:
                os.write(ours, answer)
                answer = b""
    assert process.wait(60) == 0, shown
    os.close(ours)
    return *eval(told.read_text()), QUESTION in shown


@posix
@pytest.mark.parametrize(
    ("answer", "light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\" + DEVICE, True),
        (b"\x1b]11;rgb:fd/f6/e3\x07" + DEVICE, True),
        (b"\x1b]11;rgba:0000/2b2b/3636/ffff\x1b\\" + DEVICE, False),
        (DEVICE, None),
    ],
)
def test_a_terminal_is_asked_for_its_background(tmp_path, answer, light):
    assert seen_in_terminal(tmp_path, answer) == (light, True, "", True)


@posix
def test_a_terminal_that_says_nothing_is_not_waited_for_long(tmp_path):
    assert seen_in_terminal(tmp_path, b"", patience=0.05) == (None, True, "", True)


@posix
def test_what_somebody_has_typed_ahead_is_left_to_be_read(tmp_path):
    assert seen_in_terminal(tmp_path, b"", typed=b"hello\n") == (None, True, "hello\n", False)


@posix
@pytest.mark.parametrize("term", ["dumb", "linux"])
def test_a_terminal_without_an_answer_is_not_asked(tmp_path, term):
    assert seen_in_terminal(tmp_path, b"", TERM=term) == (None, True, "", False)


@posix
@pytest.mark.parametrize(("told", "light"), [("0;15", True), ("15;default;0", False), ("default", None)])
def test_the_environment_may_tell_what_the_terminal_does_not(tmp_path, told, light):
    assert seen_in_terminal(tmp_path, DEVICE, COLORFGBG=told)[0] is light


def test_without_a_terminal_nothing_is_known(tmp_path):
    code = "from xray.cli.screen.background import has_light_background; print(has_light_background())"
    env = {**os.environ, "COLORFGBG": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        env=env,
    )

    assert (done.stdout, done.stderr) == ("None\n", "")


@pytest.fixture(scope="module")
def trace_file(training_trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "t.json"
    path.write_text(trace_to_json(training_trace), encoding="utf-8")
    return str(path)


@pytest.fixture
def in_colours(monkeypatch):
    """A function that says what the terminal's background is."""
    monkeypatch.setattr(terminal, "colour_depth", lambda stream: "truecolor")

    def be(light):
        monkeypatch.setattr(terminal, "has_light_background", lambda: light)

    return be


def colours_of(text):
    """Every foreground with the background it stands on, None where the terminal's own shows."""
    pairs = set()
    for codes in re.findall(r"\x1b\[([\d;]+)m", text):
        inks = re.findall(r"(?:^|;)38;2;(\d+);(\d+);(\d+)", codes)
        grounds = re.findall(r"(?:^|;)48;2;(\d+);(\d+);(\d+)", codes)
        if inks:
            pairs.add((tuple(map(int, inks[0])), tuple(map(int, grounds[0])) if grounds else None))
    return pairs


def brightness(colour):
    return sum(part * share for part, share in zip(colour, (0.3, 0.59, 0.11), strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("light", [True, False, None])
@pytest.mark.parametrize("options", [[], ["--theme", "dark"], ["--theme", "light"]])
def test_a_walk_can_be_read_on_any_background(trace_file, in_colours, capsys, light, options):
    in_colours(light)

    assert run(["walk", trace_file, "--station", "5", *options]) == 0
    pairs = colours_of(capsys.readouterr().out)
    own = {True: [(255, 255, 255)], False: [(0, 0, 0)], None: [(255, 255, 255), (0, 0, 0)]}[light]
    grounds = [(ink, ground or page) for ink, ground in pairs for page in own]
    assert len(pairs) > 4
    assert [pair for pair in grounds if abs(brightness(pair[0]) - brightness(pair[1])) < 70] == []


def test_a_known_background_is_left_as_it_is(trace_file, in_colours, capsys):
    in_colours(True)
    run(["walk", trace_file, "--station", "5"])

    assert None in {ground for _, ground in colours_of(capsys.readouterr().out)}


def test_tables_take_the_theme_that_suits_the_terminal(trace_file, in_colours, monkeypatch, capsys):
    in_colours(True)
    monkeypatch.setattr("xray.cli.shown.at_terminal", lambda: True)
    monkeypatch.setattr("xray.cli.shown.colour_depth", lambda stream: "truecolor")
    run(["draw", trace_file])
    page = load_theme("light").surfaces["page"].fill

    ground = tuple(int(page[place : place + 2], 16) for place in (1, 3, 5))
    assert ground in {ground for _, ground in colours_of(capsys.readouterr().out)}


@pytest.fixture
def screen(monkeypatch, tmp_path):
    """A terminal of ten lines, and a pager that keeps what it gets in a file."""
    monkeypatch.setattr("xray.cli.screen.pager.at_terminal", lambda: True)
    monkeypatch.setattr("xray.cli.screen.pager.terminal_height", lambda: 10)
    monkeypatch.setenv("TERM", "xterm")
    paged = tmp_path / "paged"
    monkeypatch.setenv("PAGER", f"cat > '{paged}'; echo $LESS >> '{paged}'")
    monkeypatch.delenv("LESS", raising=False)
    return paged


LONG, SHORT = "line\n" * 10, "line\n" * 9


@posix
def test_a_text_longer_than_the_screen_goes_through_the_pager(screen, capsys):
    show_long(LONG)

    assert screen.read_text() == LONG + "FRX\n"
    assert capsys.readouterr().out == ""


def test_a_text_that_fits_is_printed(screen, capsys):
    show_long(SHORT)

    assert not screen.exists()
    assert capsys.readouterr().out == SHORT


@pytest.mark.parametrize("pager", ["", "cat", "no-such-pager-anywhere"])
def test_without_a_pager_a_long_text_is_printed(screen, monkeypatch, capsys, pager):
    monkeypatch.setenv("PAGER", pager)
    show_long(LONG)

    assert capsys.readouterr().out == LONG


@posix
def test_a_reader_who_leaves_the_pager_early_gets_no_error(screen, monkeypatch, capsys):
    monkeypatch.setenv("PAGER", "true")
    show_long("line\n" * 100_000)

    assert capsys.readouterr().out == ""


def test_nothing_is_paged_where_stdout_is_no_terminal(screen, monkeypatch, capsys):
    monkeypatch.setattr("xray.cli.screen.pager.at_terminal", lambda: False)
    show_long(LONG)

    assert capsys.readouterr().out == LONG


def test_the_background_is_asked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(background, "ask_terminal", lambda: asked.append(1))
    background.has_light_background.cache_clear()
    background.has_light_background()
    background.has_light_background()
    background.has_light_background.cache_clear()

    assert len(asked) == 1
