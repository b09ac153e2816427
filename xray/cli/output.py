"""Where results go: files written aside and renamed, stdout for results, stderr for talk."""

import os
import stat
import sys
from pathlib import Path
from typing import NoReturn

import typer

from xray.errors import OutputError
from xray.scratch import write_aside
from xray.text import reason_of, show_controls

CLOSED_PIPE = 141
"""What a shell reports of a program whose reader went away (128 + SIGPIPE)."""


def check_writable(path: Path) -> None:
    """Make sure, before any work is done, that a file can be written at `path`.

    Raises:
        OutputError: the folder is missing or closed to writing, or the path is a folder.
    """
    name = show_controls(str(path))
    try:
        if path.is_dir():
            raise OutputError(f"cannot write {name}: it is a folder. Name a file in it.")
        if path.exists() and not path.is_file() and not is_device(path):
            raise OutputError(f"cannot write {name}: it is not an ordinary file. Choose another name.")
        folder = path.resolve().parent
        if not folder.is_dir():
            raise OutputError(
                f"cannot write {name}: the folder {show_controls(str(folder))} is missing. Make it first."
            )
    except (OSError, ValueError, RuntimeError) as error:  # pathlib says RuntimeError of a link to itself
        raise OutputError(f"cannot write {name}: {reason_of(error)}. Choose another place with -o.") from error
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise OutputError(f"cannot write {name}: permission denied. Choose another place with -o.")


def make_folder(path: Path) -> None:
    """The folder at `path`, made with those above it where it is missing.

    Raises:
        OutputError: something else has that name, or the place is closed to writing.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(
            f"cannot make the folder {show_controls(str(path))}: {reason_of(error)}. Choose another."
        ) from error


def write_file(path: Path, content: str | bytes) -> None:
    """The whole content at `path`, or nothing new: see `write_aside`.

    Raises:
        OutputError: the disk is full, the folder closed, or the path is not to be written.
    """
    data = encode(content)
    try:
        if is_device(path):
            path.write_bytes(data)
            return
        with write_aside(path.resolve()) as file:
            file.write(data)
    except (OSError, RuntimeError) as error:
        name = show_controls(str(path))
        raise OutputError(f"cannot write {name}: {reason_of(error)}. Nothing was changed.") from error


def write_stdout(content: str | bytes) -> None:
    """The content on stdout; if the reader has gone, leave quietly.

    Raises:
        OutputError: stdout is closed or its disk is full.
    """
    if sys.stdout is None:
        raise OutputError("cannot write the result: stdout is closed. Name a file with -o.")
    try:
        if isinstance(content, str):
            encoding = sys.stdout.encoding or "utf-8"
            content = content.encode(encoding, errors="backslashreplace")
        sys.stdout.flush()
        left = memoryview(content)
        while left:  # with PYTHONUNBUFFERED the buffer is a bare file, which may take less than it is given
            left = left[sys.stdout.buffer.write(left) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        leave_quietly()
    except OSError as error:
        silence(sys.stdout.fileno())
        raise OutputError(
            f"cannot write to stdout: {reason_of(error)}. Name a file with -o, or send it elsewhere."
        ) from error


def say(text: str) -> None:
    """A line, or a table, of talk on stderr; lost without complaint where nobody listens."""
    if sys.stderr is None:
        return
    try:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, errors="backslashreplace").decode(encoding) + "\n")
        sys.stderr.flush()
    except OSError:
        silence(2)


def leave_quietly() -> NoReturn:
    """End as programs do whose reader closed the pipe, also at the interpreter's last flush."""
    silence(sys.stdout.fileno())
    raise typer.Exit(CLOSED_PIPE)


def silence(descriptor: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def is_device(path: Path) -> bool:
    """Whether a path is a place like /dev/null or /dev/stdout, which is written to and never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def encode(content: str | bytes) -> bytes:
    """A text as UTF-8; half characters, which no encoding has, are spelt out."""
    return content.encode(errors="backslashreplace") if isinstance(content, str) else content
