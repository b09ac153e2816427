"""Where a whole corpus comes from: the files or data sets to learn from, and those to measure on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from xray.data.reading.hub import HubSource
from xray.data.reading.source import Source

AnySource = Source | HubSource


@dataclass(frozen=True)
class Origin:
    """The sources to learn from, at least one, and those to measure on; without any, a share is held out."""

    learn: tuple[AnySource, ...]
    held_out: tuple[AnySource, ...] = ()

    @property
    def stem(self) -> str:
        """What a run on this corpus is called."""
        return self.learn[0].stem

    @property
    def name(self) -> str:
        """The names of its sources, fit to be shown."""
        first, *more = (source.name for source in self.learn)
        return first if not more else f"{first} and {len(more)} more"

    @property
    def sources(self) -> tuple[AnySource, ...]:
        """All of them, those to learn from first."""
        return self.learn + self.held_out


def as_origin(source: "Origin | AnySource | Path") -> Origin:
    """One source, or a path, as a corpus."""
    if isinstance(source, Origin):
        return source
    return Origin((Source(source) if isinstance(source, Path) else source,))


def fingerprints(origin: Origin) -> dict[str, str]:
    """The SHA-256 of every ordinary file of a corpus by its path; pipes and data sets on the hub have none."""
    paths = [source.path for source in origin.sources if isinstance(source, Source) and source.path.is_file()]
    return {str(path.resolve()): file_digest(path) for path in paths}


def file_digest(path: Path) -> str:
    """The SHA-256 of a file of any size."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def to_dict(origin: Origin) -> dict[str, Any]:
    """A corpus's sources, for JSON; paths are whole, so that a run can be resumed from anywhere."""
    return {"learn": [spell(source) for source in origin.learn], "held_out": [spell(one) for one in origin.held_out]}


def from_dict(values: Mapping[str, Any]) -> Origin:
    """The sources that `to_dict` gave."""
    return Origin(tuple(read(one) for one in values["learn"]), tuple(read(one) for one in values["held_out"]))


def spell(source: AnySource) -> dict[str, Any]:
    if isinstance(source, HubSource):
        return asdict(source)
    return {**asdict(source), "path": str(source.path.resolve())}


def read(values: Any) -> AnySource:  # noqa: ANN401  # any JSON
    """A source that `spell` gave.

    Raises:
        msgspec.ValidationError: it is none.
    """
    if isinstance(values, dict) and "repository" in values:
        return msgspec.convert(values, HubSource)
    return msgspec.convert(values, Source, dec_hook=lambda kind, value: kind(value))
