"""Where results go: files written aside and renamed, stdout for results, stderr for talk."""

import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import typer

from xray.errors import OutputError
from xray.scratch import keep_from_sweepers, sweep_files
from xray.text import show_controls

ASIDE = ".part"
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
    """The whole content at `path`, or nothing new: written aside in the same folder, synced, then renamed.

    Raises:
        OutputError: the disk is full, the folder closed, or the path is not to be written.
    """
    data = encode(content)
    try:
        if is_device(path):
            path.write_bytes(data)
            return
        target = path.resolve()
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~current_umask()
        handle, aside = open_aside(target)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(aside, mode)  # noqa: PTH101  # mkstemp gives a plain string
                if os.name == "posix":  # while it is held, so that no sweeper takes it
                    os.replace(aside, target)  # noqa: PTH105
            if os.name != "posix":
                os.replace(aside, target)  # noqa: PTH105
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
    except (OSError, RuntimeError) as error:
        raise OutputError(
            f"cannot write {show_controls(str(path))}: {reason_of(error)}. Nothing was changed."
        ) from error


def open_aside(target: Path) -> tuple[int, str]:
    """A new file beside the target, held for as long as this process writes it; those of killed processes are removed.

    Raises:
        OSError: the folder is closed, or the disk full.
    """
    start = f".{target.name[:40]}."
    sweep_files(target.parent, start, ASIDE)
    while True:
        handle, aside = tempfile.mkstemp(prefix=start, suffix=ASIDE, dir=target.parent)
        if keep_from_sweepers(Path(aside), handle):
            return handle, aside
        os.close(handle)


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
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"cannot write to stdout: {reason}. Name a file with -o, or send it elsewhere.") from error


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


def reason_of(error: Exception) -> str:
    """Why the system refused, in its words."""
    if isinstance(error, RuntimeError):
        return "too many levels of symbolic links"
    return show_controls((getattr(error, "strerror", None) or str(error)).lower())


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
