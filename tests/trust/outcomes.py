"""A command run in this process: how it ended, what it said, and the promise that every ending keeps."""

import contextlib
import io
import sys
from dataclasses import dataclass

from xray.cli.app import run

CODES = {0, 1, 2, 130, 141, 143}


@dataclass(frozen=True)
class Outcome:
    """The exit code, the bytes on stdout and the text on stderr."""

    code: int
    out: bytes
    err: str

    @property
    def last(self):
        """The last line on stderr, which tells of an error."""
        lines = self.err.splitlines()
        return lines[-1] if lines else ""


def call(*arguments, stdin=b""):
    """Run a command line with streams of its own; anything but a return is a traceback on a user's screen."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    out.flush()
    err.flush()
    return Outcome(code, out.buffer.getvalue(), err.buffer.getvalue().decode())


def assert_plain(text):
    """No character in it that a terminal obeys, but line ends."""
    bad = [
        character for character in text if (ord(character) < 32 and character != "\n") or 127 <= ord(character) < 160
    ]
    assert bad == []


def assert_one_line(error, *words, most=1500):
    """An error's text: one line, nothing to obey in it, one of the words, if any, and not endless."""
    told = str(error)
    assert_plain(told)
    assert "\n" not in told
    assert len(told) <= most
    assert not words or any(word in told for word in words), told


def assert_refused(outcome, code, *words):
    """One line on stderr that begins with "xray:", says what is wrong, and nothing on stdout."""
    assert outcome.code == code, outcome.err
    assert outcome.out == b""
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("xray: ")
    assert "xray: unexpected" not in outcome.err, outcome.err
    assert_plain(outcome.err)
    for word in words:
        assert word in outcome.err, outcome.err


def assert_explained(outcome):
    """Whatever was given: done, or an error that was foreseen, in lines that a terminal shows as they are."""
    assert outcome.code in CODES, outcome.err
    assert "xray: unexpected" not in outcome.last, outcome.err
    assert "Traceback" not in outcome.err, outcome.err
    assert_plain(outcome.err)
    if outcome.code in (1, 2):
        assert outcome.last.startswith("xray: "), outcome.err


def files_in(folder):
    """Every file below a folder, by its path, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
