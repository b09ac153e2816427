"""Folders and files that hold something for a while: gone when it is over, and where a process was killed, at the next
start of another. And files that are whole at every moment, because they were written aside."""

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from xray.errors import OutputError
from xray.text import reason_of

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed and a killed process leaves it to the user
    fcntl = None  # type: ignore[assignment]

PREFIX = "xray-scratch-"
ASIDE = ".part"
"""How the names of files end that are still being written."""


@contextmanager
def scratch_folder(kind: str = "") -> Iterator[Path]:
    """Inside the block an empty folder of this process's own; what killed processes left of theirs is removed first.

    Raises:
        OutputError: there is no place for temporary files.
    """
    try:
        sweep_folders(tempfile.gettempdir())
        path, handle = make_folder(f"{PREFIX}{kind}")
    except OSError as error:
        raise OutputError(
            f"cannot make a temporary folder: {reason_of(error)}. "
            "Set TMPDIR to a folder that can be written and has room."
        ) from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def sweep() -> None:
    """Remove what killed processes left in the place for temporary files; for those who need no folder of their own."""
    with suppress(OSError):
        sweep_folders(tempfile.gettempdir())


@contextmanager
def write_aside(target: Path, keep: Path | None = None) -> Iterator[BinaryIO]:
    """Inside the block a new file beside the target; after it, it has taken the target's place, whole and synced.

    Where anything fails the target is as it was, and nothing is left aside. A target that was there gives its
    permissions, and goes on as `keep` if that is named. A link is replaced, so resolve it before.

    Raises:
        OSError: the folder is closed, or the disk full.
    """
    aside, file = open_aside(target)
    try:
        with file:
            if target.exists():
                aside.chmod(stat.S_IMODE(target.stat().st_mode))  # before there is anything in it to be read
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is held, so that no sweeper takes it
                move(aside, target, keep)
        if fcntl is None:
            move(aside, target, keep)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def open_aside(target: Path) -> tuple[Path, BinaryIO]:
    """A new file beside the target, held as long as this process writes it; those of killed processes are removed."""
    start = f".{target.name[:40]}."
    sweep_files(target.parent, start, ASIDE)
    while True:
        aside = target.parent / f"{start}{secrets.token_hex(6)}{ASIDE}"
        file = aside.open("xb")
        if keep_from_sweepers(aside, file.fileno()):
            return aside, file
        file.close()


def move(aside: Path, target: Path, keep: Path | None) -> None:
    """Put a file in the place of another, which goes on under a third name, if there is one."""
    if keep is not None and target.exists():
        target.replace(keep)
    aside.replace(target)


def sync_folder(path: Path) -> None:
    """Make renames last through a power loss, on systems whose folders can be synced."""
    if os.name != "posix":
        return
    with suppress(OSError):  # the files are in their places, and whole
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(prefix: str) -> tuple[Path, int | None]:
    """A new folder and its handle, locked for as long as its process lives; made again where a sweeper took it."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        if fcntl is None:
            return path, None
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        if keep_from_sweepers(path, handle):
            return path, handle
        os.close(handle)


@lru_cache(maxsize=8)
def sweep_folders(place: str) -> None:
    """Remove the scratch folders in `place` whose processes were killed; once in a process is enough."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and is_ours(entry):
                remove_unless_held(Path(entry.path))


def sweep_files(folder: Path, prefix: str, suffix: str) -> None:
    """Remove the files of such names in a folder that no living process writes (see `keep_from_sweepers`)."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(suffix) and entry.is_file(follow_symlinks=False):
                remove_unless_held(Path(entry.path))


def remove_unless_held(path: Path) -> None:
    """Remove a file or a folder if no living process holds it."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if hold(handle):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def hold(handle: int) -> bool:
    """Lock an open file until it is closed or the process dies; False if another has it, or nothing can be locked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def keep_from_sweepers(path: Path, handle: int) -> bool:
    """Lock what was just made, unless a sweeper was quicker; True where there are no locks, and no sweepers."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


def is_ours(entry: "os.DirEntry[str]") -> bool:
    """Whether a folder belongs to this user, and is no link to somebody else's."""
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
