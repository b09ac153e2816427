"""What commands share that read something off a trace: one is recorded or opened, read, and written or shown."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from xray.cli.options.of_sources import (
    BatchOption,
    ImageSizeOption,
    KindOption,
    SeqLenOption,
    TrustOption,
    make_request,
)

if TYPE_CHECKING:
    from xray.errors import XRayError
    from xray.ir.trace import Trace
    from xray.renderers.table.walk import Screen
    from xray.sources.request import Request

RUN_FILE = "run.json"
"""What a folder with a trained chatbot holds."""


@dataclass(frozen=True)
class Options:
    """What of, written where, and in which colours."""

    source: Annotated[
        str | None,
        typer.Argument(
            help="A trace.json, the folder of a trained chatbot, or a model, as hf:owner/model or my_model.py:build: "
            "all that xray trace takes.",
            show_default="the chatbot",
        ),
    ] = None
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A .json file to write.", show_default=False)
    ] = None
    kind: KindOption = None
    batch: BatchOption = None
    seq_len: SeqLenOption = None
    image_size: ImageSizeOption = None
    trust_remote_code: TrustOption = False
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help='An input to make, as in "src=int64[2,10]<1000" or "float32[1,3,224,224]".'),
    ] = None
    meta: Annotated[bool, typer.Option("--meta", help="Build it without storage: any size, no numbers.")] = False
    theme: Annotated[str, typer.Option(help="dark, light (for print), or a theme file of your own (.toml).")] = "dark"


class Findings(Protocol):
    """What is read off a trace."""

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and words for JSON."""


Found = TypeVar("Found", bound=Findings)


def show_findings(
    context: typer.Context,
    asked: Options,
    name: str,
    read: "Callable[[Trace], Found]",
    spell: "Callable[[Found, Trace, Screen], str]",
    widest: int,
) -> Found:
    """What was found in a trace, once it is written as JSON, or shown as text.

    `name` says what it is, as "an audit"; `spell` gives the text, no wider than `widest`.

    Raises:
        UsageError: the file to write has another suffix, or inputs are given for what has its own.
        XRayError: what ended the recording; what ran before it is shown by then.
    """
    import json

    from xray.cli.output import check_writable, say, write_file
    from xray.cli.screen.pager import show_long
    from xray.cli.screen.painting import pick_theme
    from xray.cli.screen.terminal import stdout_screen
    from xray.errors import UsageError
    from xray.text import show_controls

    if asked.output is not None:
        if asked.output.suffix.lower() != ".json":
            raise UsageError(f"{name} is written as JSON. End {show_controls(str(asked.output))} in .json.")
        check_writable(asked.output)
    paint = pick_theme(asked.theme)
    sizes = (asked.batch, asked.seq_len, asked.image_size)
    request = make_request(asked.inputs or [], asked.meta, asked.kind, *sizes, asked.trust_remote_code)
    trace, error = record_source(asked.source, request)
    found = read(trace)
    if asked.output is not None:
        write_file(asked.output, json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n")
        say(f"wrote {show_controls(str(asked.output))}")
    else:
        screen = replace(stdout_screen(context, paint), widest=widest)
        show_long(spell(found, trace, screen) + "\n")
    if error is not None:
        raise error
    return found


def record_source(source: str | None, request: "Request") -> "tuple[Trace, XRayError | None]":
    """The trace of whatever a source names, and the failure that ended its recording.

    Raises:
        UsageError: inputs are given for what has its own.
    """
    from xray.cli.recording import record_chatbot, record_target
    from xray.errors import UsageError
    from xray.ir.files import read_trace_file
    from xray.sources.request import Request

    path = None if source is None else Path(source)
    is_run = path is None or (path / RUN_FILE).is_file()
    is_file = path is not None and path.suffix.lower() == ".json" and path.name != "config.json"
    if (is_run or is_file) and request != Request():
        raise UsageError(
            "--input, --meta, --as, --batch, --seq-len and --image-size are for models, as hf:owner/model. "
            "Leave them out."
        )
    if is_run:
        return record_chatbot(path, "training", None, 1, "auto")[0], None
    if is_file:
        return read_trace_file(path or ""), None
    trace, _, error = record_target(source or "", request)
    return trace, error
