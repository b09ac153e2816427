"""Where pairs come from: a file, the columns in it, and how it is written."""

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xray.errors import DataError
from xray.text import show_controls

FileKind = Literal["csv", "json", "parquet"]

KINDS: dict[str, FileKind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class Source:
    """A file of pairs; `separator` None is a tab in `.tsv` files and a comma elsewhere.

    A column inside another is named with a dot, as in "translation.en". With `skip_bad` rows that cannot be read are
    passed over and counted.
    """

    path: Path
    question: str = "question"
    answer: str = "answer"
    encoding: str = "utf-8"
    separator: str | None = None
    skip_bad: bool = False

    @property
    def stem(self) -> str:
        """What a run on this file is called."""
        return self.path.stem

    @property
    def name(self) -> str:
        """The file's name, fit to be shown."""
        return show_controls(self.path.name)

    @property
    def kind(self) -> FileKind:
        """What the suffix says; a pipe without a suffix is taken for CSV.

        Raises:
            DataError: the suffix is of no kind that is read.
        """
        suffix = self.path.suffix.lower()
        if suffix not in KINDS and (suffix or self.path.is_file()):
            raise DataError(
                f"cannot read {self.name}: the suffix {suffix!r} is unknown. "
                "Give a .csv, .tsv, .jsonl or .parquet file of pairs."
            )
        return KINDS.get(suffix, "csv")

    @property
    def cell_separator(self) -> str:
        """What stands between two cells of a line."""
        if self.separator is not None:
            return self.separator
        return "\t" if self.path.suffix.lower() == ".tsv" else ","

    @property
    def decoding(self) -> str:
        """The encoding to read with: that of the file, less the mark that some programs put before UTF-8."""
        return "utf-8-sig" if canonical(self.encoding) == "utf-8" else self.encoding


def canonical(encoding: str) -> str:
    """The one name of an encoding that has several, such as "utf-8" for "U8".

    Raises:
        DataError: there is no such encoding, or it is none of text.
    """
    try:
        found = codecs.lookup(encoding).name
        b"".decode(encoding)
    except (LookupError, UnicodeError, ValueError) as error:
        raise DataError(f"the encoding {encoding!r} is unknown. Choose utf-8, utf-16, latin-1 or cp1252.") from error
    return found


def is_wide(encoding: str) -> bool:
    """Whether a character takes two bytes or four, so that NUL bytes and line ends cannot be looked for in bytes."""
    return canonical(encoding).startswith(("utf-16", "utf-32"))


def check_columns(source: Source, columns: list[str]) -> None:
    """Hold the columns of a file, inner ones with a dot, to the two that are wanted.

    Raises:
        DataError: a column is missing or there twice.
    """
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DataError(f"{source.name} has the column {show(twice)} more than once. Rename or remove one of them.")
    missing = [name for name in (source.question, source.answer) if name not in columns]
    if not missing:
        return
    found = f"{source.name} has no column {show(missing)}; its columns are {show(columns)}."
    if source.kind == "csv" and len(columns) == 1:
        for mark, word in ((";", '";"'), ("\t", '"\\t" (a tab)'), ("|", '"|"'), (",", '","')):
            if mark in columns[0] and mark != source.cell_separator:
                raise DataError(f"{found} Is {word} its separator? Then say --separator {word.split()[0]}.")
    raise DataError(f"{found} Name the right ones with --source and --target.")


def show(names: list[str]) -> str:
    """The names in quotes, one after the other, fit for a message."""
    return ", ".join(f'"{show_controls(name)}"' for name in names)
