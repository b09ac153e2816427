"""From what stands on the command line to a corpus: files, or data sets on the hub."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xray.data.reading.hub import HubSource
from xray.data.reading.origin import AnySource, Origin
from xray.data.reading.source import KINDS, Source
from xray.errors import UsageError

HUB_NAME = re.compile(r"[\w-]+/[\w.-]*[\w-]")


@dataclass(frozen=True)
class Columns:
    """How pairs stand in a source."""

    question: str = "question"
    answer: str = "answer"
    encoding: str = "utf-8"
    separator: str | None = None
    skip_bad: bool = False


def find_corpus(
    names: Sequence[str],
    columns: Columns,
    valid: Sequence[str] = (),
    config: str | None = None,
    split: str | None = None,
    valid_split: str | None = None,
) -> Origin:
    """The corpus of some files or data sets, and what it is measured on.

    Raises:
        UsageError: the options of data sets stand beside files only.
    """
    of_hub = [option for option in (config, split, valid_split) if option is not None]
    learn = tuple(find_source(name, columns, config, split or "train", bool(of_hub)) for name in names)
    hub = [source for source in learn if isinstance(source, HubSource)]
    if of_hub and not hub:
        raise UsageError("--config, --split and --valid-split belong to data sets on the hub, and these are files.")
    held_out: tuple[AnySource, ...] = tuple(find_source(name, columns, config, "validation", False) for name in valid)
    if valid_split is not None:
        held_out += tuple(
            HubSource(one.repository, one.config, valid_split, columns.question, columns.answer) for one in hub
        )
    return Origin(learn, held_out)


def find_source(name: str, columns: Columns, config: str | None, split: str, hub_likely: bool) -> AnySource:
    """A file if there is one or its name has the suffix of one; else "owner/name" is a data set on the hub."""
    path = Path(name)
    is_hub_name = HUB_NAME.fullmatch(name) is not None and path.suffix.lower() not in KINDS
    if not is_there(path) and (is_hub_name or (hub_likely and not path.suffix)):
        return HubSource(name, config, split, columns.question, columns.answer)
    return Source(path, columns.question, columns.answer, columns.encoding, columns.separator, columns.skip_bad)


def is_there(path: Path) -> bool:
    """Whether there is something of that name; a name that no file can have is found wanting when it is opened."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return True
