"""Folders and files that hold something for a while: gone when it is over, and where a process was killed, at the next
start of another."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from xray.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed and a killed process leaves it to the user
    fcntl = None  # type: ignore[assignment]

PREFIX = "xray-scratch-"


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
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            f"cannot make a temporary folder: {reason}. Set TMPDIR to a folder that can be written and has room."
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
