"""The folder of a run: one writer at a time, and every file in it whole at every moment."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from xray.errors import RunError, XRayError
from xray.scratch import ASIDE, sweep, sweep_files, sync_folder, write_aside
from xray.text import reason_of, show_controls

FORMAT = 2
"""The format of run folders; it grows when an older X-Ray could no longer read them."""

READABLE = (1, 2)
"""The formats whose chatbots can be loaded; only those of `FORMAT` can be trained further."""

RUN, QUESTIONS, ANSWERS, SPELLING, PAIRS = "run.json", "questions.json", "answers.json", "spelling.json", "pairs.json"
CORPUS, CURVE, LOGS = "corpus.arrow", "loss.svg", "tensorboard"
LAST, PREVIOUS = "last.safetensors", "previous.safetensors"
BEST, AVERAGE = "best.safetensors", "average.safetensors"
BEGUN_WITH = (QUESTIONS, ANSWERS, SPELLING, PAIRS, CORPUS, LAST)
"""What a run consists of at its first step, besides `run.json`."""

LOCK = ".lock"
NEXT = ".next"
"""The folder within, where a run that replaces another is put together until it is whole."""

PREPARING = ".preparing"
"""The folder within, where a corpus is prepared; what is there of an unfinished one is gone on with."""


@dataclass(frozen=True)
class RunFolder:
    """A folder such as runs/movie_qa. `run.json` is written last, so that a folder with one holds a whole run."""

    path: Path

    @property
    def name(self) -> str:
        """The path, fit to be shown."""
        return show_controls(str(self.path))

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun here.

        Raises:
            RunError: the folder cannot be looked into.
        """
        try:
            return (self.path / RUN).is_file()
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.name}: {reason_of(error)}. Name the folder of a run.") from error

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Inside the block the folder is there, can be written, and belongs to this process alone.

        What an earlier process left half-written is removed.

        Raises:
            RunError: the folder cannot be written, or another process trains in it.
        """
        made = folders_to_make(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / LOCK, timeout=0)
            lock.acquire()
        except Timeout as error:
            raise RunError(
                f"{self.name} is in use: another process trains there. Wait for it, or choose another with --out."
            ) from error
        except (OSError, NotImplementedError) as error:
            raise RunError(
                f"cannot write {self.name}: {reason_of(error)}. Choose another folder with --out."
            ) from error
        try:
            self.adopt()
            sweep()
            sweep_files(self.path, ".", ASIDE)
            self.write("probe", b"")
            (self.path / "probe").unlink()
            yield
        except BaseException:
            remove_empty(made)
            raise
        finally:
            lock.release()

    @contextmanager
    def preparing(self) -> Iterator[Path]:
        """Inside the block a folder within to prepare a corpus in.

        It stays where the process is stopped or killed, and goes where the work is done or cannot be.
        """
        place = self.path / PREPARING
        try:
            place.mkdir(exist_ok=True)
            yield place
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            raise RunError(
                f"cannot write {self.name}: {reason_of(error)}. Make room, or choose another folder with --out."
            ) from error
        except XRayError:
            shutil.rmtree(place, ignore_errors=True)
            raise
        except BaseException:
            remove_empty([place])
            raise
        shutil.rmtree(place, ignore_errors=True)

    def prepare_next(self) -> "RunFolder":
        """An empty folder within, to put a whole new run into while the one that is here stays; then `adopt` it."""
        place = RunFolder(self.path / NEXT)
        try:
            shutil.rmtree(place.path, ignore_errors=True)
            place.path.mkdir()
        except OSError as error:
            raise RunError(
                f"cannot write {self.name}: {reason_of(error)}. Choose another folder with --out."
            ) from error
        return place

    def adopt(self) -> None:
        """Put the run that was prepared within in the place of the earlier one; files that X-Ray did not write stay.

        Its `run.json` moves last: until then the move can be taken up again, by whoever opens the folder next. What was
        not prepared to the end is removed.
        """
        prepared = self.path / NEXT
        if (prepared / RUN).is_file():
            for name in (PREVIOUS, BEST, AVERAGE, CURVE):
                (self.path / name).unlink(missing_ok=True)
            for name in BEGUN_WITH:
                if (prepared / name).exists():
                    (prepared / name).replace(self.path / name)
            shutil.rmtree(self.path / LOGS, ignore_errors=True)
            (prepared / RUN).replace(self.path / RUN)
            sync_folder(self.path)
        shutil.rmtree(prepared, ignore_errors=True)

    def settle(self) -> None:
        """Take up a move that was cut short, unless another process is at work here."""
        try:
            if not (self.path / NEXT / RUN).is_file():
                return
            with FileLock(self.path / LOCK, timeout=0):
                self.adopt()
        except (Timeout, OSError, ValueError, NotImplementedError):
            return

    def read(self, name: str) -> bytes:
        """The bytes of a file of the run.

        Raises:
            RunError: it cannot be read.
        """
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise RunError(f"cannot read {self.name}/{name}: {reason_of(error)}. {TRAIN_AGAIN}") from error

    def read_json(self, name: str) -> dict[str, Any]:
        """The object in a JSON file of the run.

        Raises:
            RunError: it cannot be read, or is damaged.
        """
        try:
            content = json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.name}/{name} is damaged: it is not JSON. {TRAIN_AGAIN}") from error
        if not isinstance(content, dict):
            raise RunError(f"{self.name}/{name} is damaged: it is not an object. {TRAIN_AGAIN}")
        return content

    def write(self, name: str, data: bytes, keep: str | None = None) -> None:
        """A file of the run, whole or not at all.

        With `keep`, the file that was there before goes on under that name. One failure is tried again.

        Raises:
            RunError: the disk is full or the folder closed; what was there is untouched.
        """
        for last_try in (False, True):
            try:
                self.write_once(name, data, keep)
            except OSError as error:
                if last_try:
                    raise RunError(
                        f"cannot save {self.name}/{name}: {reason_of(error)}. What was saved before is untouched."
                    ) from error
            else:
                return

    def take(self, name: str, path: Path) -> None:
        """A file of any size moved here, on the same disk, and synced; see `write`.

        Raises:
            RunError: the disk is full or the folder closed.
        """
        try:
            with path.open("rb+") as file:
                os.fsync(file.fileno())
            path.replace(self.path / name)
        except OSError as error:
            raise RunError(
                f"cannot save {self.name}/{name}: {reason_of(error)}. What was saved before is untouched."
            ) from error

    def write_once(self, name: str, data: bytes, keep: str | None) -> None:
        """One try to write a file; nothing is left aside if it fails."""
        target = self.path / name
        if target.is_symlink() or (target.exists() and not target.is_file()):
            raise OSError(errno.EINVAL, "it is not an ordinary file")
        with write_aside(target, None if keep is None else self.path / keep) as file:
            file.write(data)


def folders_to_make(path: Path) -> list[Path]:
    """The folder and those above it that are not there, innermost first."""
    with suppress(OSError, ValueError):
        return [folder for folder in (path, *path.parents) if not folder.exists()]
    return []


def remove_empty(made: list[Path]) -> None:
    """Remove folders that were made, innermost first, as far as there is nothing in them but a lock."""
    with suppress(OSError):
        for path in made:
            if [entry.name for entry in path.iterdir()] == [LOCK]:
                (path / LOCK).unlink()
            path.rmdir()


TRAIN_AGAIN = 'Train again with "xray train FILE.csv --overwrite".'


def digest(data: bytes) -> str:
    """The SHA-256 of a file's bytes."""
    return sha256(data).hexdigest()


def to_json(content: dict[str, Any]) -> bytes:
    """An object as a JSON file that people can read."""
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def xray_version() -> str:
    """The version of this X-Ray, "unknown" where it was never installed."""
    try:
        return version("transformer-xray")
    except PackageNotFoundError:
        return "unknown"
