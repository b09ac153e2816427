"""Twins that are asked for: recorded with what they are held beside, or read from the trace of another recording."""

from collections.abc import Sequence
from pathlib import Path

from xray.errors import UsageError
from xray.ir.trace import Trace
from xray.ir.twins import TWINS
from xray.text import show_controls


def sort_twins(given: Sequence[str], source: Path | None) -> tuple[list[str], dict[str, Path]]:
    """The twins to record, each once, and the files of those that are recorded, by their names.

    Raises:
        UsageError: a name is unknown, or there is nothing to record it with.
    """
    names = [one for one in dict.fromkeys(given) if not one.endswith(".json")]
    files: dict[str, Path] = {}
    for one in dict.fromkeys(given):
        if one.endswith(".json"):
            stem = Path(one).stem
            files[one if stem in files or stem in names else stem] = Path(one)
    for name in names:
        if name not in TWINS:
            raise UsageError(
                f"the twin {show_controls(name)!r} is unknown. Choose {', '.join(TWINS)}, or the trace of another "
                "recording, as twin.json."
            )
    if names and source is not None and is_trace(source):
        raise UsageError(
            f"--twin {names[0]}: a trace file is recorded already. Give the trace of its twin, as in --twin twin.json."
        )
    return names, files


def is_trace(source: Path) -> bool:
    """Whether a command's argument is a file with a trace, and no model by its name."""
    from xray.sources.spelling import names_model

    return not names_model(str(source))


def read_twins(files: dict[str, Path]) -> dict[str, Trace]:
    """The traces of twins that were recorded before.

    Raises:
        TraceError: a file cannot be read, or is no trace.
    """
    from xray.ir.files import read_trace_file

    return {name: read_trace_file(path) for name, path in files.items()}
