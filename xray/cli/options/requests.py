"""What several commands begin with: a trace from a file, or a chatbot recorded on the spot."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from xray.cli.options.given import refuse
from xray.ir.trace import Trace
from xray.text import show_controls

CHATBOT_ONLY = ("run", "ask", "question", "max_turns", "kv_cache", "device")
"""How the commands call what only a chatbot that is recorded on the spot can heed."""

if TYPE_CHECKING:
    from xray.capture.targets.run import Phase

LONGEST_NAME = 255
"""No file has a longer name; what is longer is a question."""
Values = Literal["few", "page", "attention"]
"""Which values a command needs; what a page keeps holds the attention too, and a chatbot keeps it in any case."""


def read_or_record(
    context: typer.Context,
    file: Path | None,
    run: Path | None,
    ask: str | None,
    phase: "Phase",
    max_turns: int,
    device: str,
    *,
    kv_cache: bool = False,
    values: Values = "few",
) -> Trace:
    """The trace in a file, which needs no torch, or of a model by its name; without either, that of a chatbot.

    Raises:
        UsageError: both a file and a chatbot or a question were given.
        TraceError: the file cannot be read, or is no trace.
    """
    if file is not None:
        given = [name for name in CHATBOT_ONLY if name in context.params]
        refuse(context, given, "a trace file is already answered. Leave this out, or the file.")
        return read_or_run(file, values=values)
    from xray.cli.output import say
    from xray.cli.recording import load_or_make

    chatbot = load_or_make(run, device)
    for note in (*chatbot.chatbot.notes, *chatbot.notes(ask)):
        say(f"xray: {show_controls(note)}")
    return chatbot.trace(phase, ask, max_turns, kv_cache=kv_cache, values="page" if values == "page" else "few")


def read_or_run(source: Path, *, values: Values = "few") -> Trace:
    """The trace in a file, which needs no torch; or that of the model of this name, with inputs made for it.

    Raises:
        TraceError: there is no such file or model, it is no trace, or the model fails.
    """
    from xray.sources.spelling import HUB_NAME, check_there, names_model

    if HUB_NAME.fullmatch(str(source)):
        check_there(str(source))
    if not names_model(str(source)):
        from xray.ir.files import read_trace_file

        return read_trace_file(source)
    from xray.cli.recording import record_target
    from xray.sources.request import Request

    trace, valued, error = record_target(str(source), Request(), values=None if values == "few" else values)
    if error is not None:
        raise error
    return valued or trace


def names_source(text: str) -> bool:
    """Whether an argument that may be a question names a model or a file with a trace."""
    from xray.sources.spelling import names_model

    if not text.strip() or text.endswith(".json"):
        return bool(text.strip())
    return len(text) <= LONGEST_NAME and (names_model(text) or Path(text).is_file())
