"""A file of questions answered in batches, line for line."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO

from xray.cli.output import check_writable, say, write_file, write_stdout
from xray.data.reading.source import canonical, is_wide
from xray.errors import DataError, UsageError
from xray.learn.answers.chatbot import Chatbot, Question
from xray.text import reason_of, show_controls

BLOCKS = 16
"""How many batches are read at a time, so that questions of like length can be answered together."""


def answer_file(chatbot: Chatbot, questions: Path, out: Path | None, batch: int, encoding: str) -> None:
    """Write the answers to `out`, or to stdout as they are found, and say on stderr how many there were.

    Raises:
        DataError: the file cannot be read.
        UsageError: there is no such encoding.
        OutputError: the answers cannot be written.
    """
    if out is not None:
        check_writable(out)
    check_encoding(encoding)
    for note in chatbot.notes:
        say(f"xray: {show_controls(note)}")
    started, answered, unknown, cut, kept = time.monotonic(), 0, 0, 0, []
    with open_questions(questions) as file:
        lines = read_lines(file, questions, encoding)
        while block := list(islice(lines, batch * BLOCKS)):
            read = [chatbot.read(line) if chatbot.tokenisers.src.split(line) else None for line in block]
            answers = answer_block(chatbot, read, batch)
            asked = [question for question in read if question is not None]
            answered += len(asked)
            unknown += sum(bool(question.unknown) for question in asked)
            cut += sum(bool(question.cut) for question in asked)
            text = "".join(f"{show_controls(answer)}\n" for answer in answers)
            if out is None:
                write_stdout(text)
            else:
                kept.append(text)
    if out is not None:
        write_file(out, "".join(kept))
    for count, what in ((unknown, "hold words that were never heard of"), (cut, "are too long and were cut")):
        if count:
            say(f"note: {count:,} of {answered:,} questions {what}.")
    took_s = time.monotonic() - started
    what = "question" if answered == 1 else "questions"
    say(f"answered {answered:,} {what} in {took_s:.1f} s ({answered / max(1e-9, took_s):,.0f} a second).")


def answer_block(chatbot: Chatbot, read: list[Question | None], batch: int) -> list[str]:
    """The answer to every question, and nothing for every line that holds none."""
    answers = iter(chatbot.answer_many([question for question in read if question is not None], batch))
    return ["" if question is None else next(answers) for question in read]


def open_questions(path: Path) -> AbstractContextManager[IO[bytes]]:
    """The file, or stdin for "-".

    Raises:
        DataError: it cannot be opened.
    """
    if str(path) == "-":
        if sys.stdin is None:
            raise DataError("cannot read questions: stdin is closed. Name a file with a question in each line.")
        return nullcontext(sys.stdin.buffer)
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot read {show_controls(str(path))}: {reason_of(error)}. Give a file with a question in each line."
        ) from error


def read_lines(file: IO[bytes], path: Path, encoding: str) -> Iterator[str]:
    """The lines of a file as text; where a line's end is more than one byte, the whole file is read for that.

    Raises:
        DataError: a line is no text in that encoding, or the disk fails.
    """
    name, number = show_controls(path.name), 0
    try:
        lines: Iterable[bytes | str] = file.read().decode(encoding).splitlines() if is_wide(encoding) else file
        for number, line in enumerate(lines, 1):  # noqa: B007  # told in the error
            text = line if isinstance(line, str) else line.decode(encoding)
            yield text.removeprefix("\ufeff").rstrip("\r\n")
    except UnicodeError as error:
        where = f", in line {number:,}" if number else ""
        raise DataError(
            f"{name} is not {encoding.upper()}{where}. Save it as UTF-8, or say what it is with --encoding."
        ) from error
    except OSError as error:
        raise DataError(f"cannot read {name}: {reason_of(error)}.") from error


def check_encoding(encoding: str) -> None:
    """Make sure that there is such an encoding.

    Raises:
        UsageError: there is none.
    """
    try:
        canonical(encoding)
    except DataError as error:
        raise UsageError(str(error)) from error
