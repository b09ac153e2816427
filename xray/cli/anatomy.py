"""`xray anatomy`: what a network is made of, as a table or as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from xray.sources.request import Request

RUN_FILE = "run.json"
"""What a folder with a trained chatbot holds."""


def anatomy(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            help="A trace.json, the folder of a trained chatbot, or a model, as hf:owner/model or my_model.py:build: "
            "all that xray trace takes.",
            show_default="the chatbot",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A .json file to write.", show_default=False)
    ] = None,
    kind: KindOption = None,
    batch: BatchOption = None,
    seq_len: SeqLenOption = None,
    image_size: ImageSizeOption = None,
    trust_remote_code: TrustOption = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help='An input to make, as in "src=int64[2,10]<1000" or "float32[1,3,224,224]".'),
    ] = None,
    meta: Annotated[bool, typer.Option("--meta", help="Build it without storage: any size, no numbers.")] = False,
    theme: Annotated[str, typer.Option(help="dark, light (for print), or a theme file of your own (.toml).")] = "dark",
) -> None:
    """Show what a network is made of: towers, layers, attention, feed-forwards, experts, norms, head.

    It is read off what the recorded steps compute, never off names; what they do not prove is left out.
    """
    import json
    from dataclasses import replace

    from xray.cli.output import check_writable, say, write_file
    from xray.cli.screen.pager import show_long
    from xray.cli.screen.painting import pick_theme
    from xray.cli.screen.terminal import stdout_screen
    from xray.errors import UsageError
    from xray.renderers.table.anatomy import WIDEST, print_anatomy
    from xray.story.body.whole import anatomy as read
    from xray.text import show_controls

    if output is not None:
        if output.suffix.lower() != ".json":
            raise UsageError(f"an anatomy is written as JSON. End {show_controls(str(output))} in .json.")
        check_writable(output)
    paint = pick_theme(theme)
    request = make_request(inputs or [], meta, kind, batch, seq_len, image_size, trust_remote_code)
    trace, error = record_source(source, request)
    found = read(trace)
    if output is not None:
        write_file(output, json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n")
        say(f"wrote {show_controls(str(output))}")
    else:
        screen = replace(stdout_screen(context, paint), widest=WIDEST)
        show_long(print_anatomy(found, show_controls(trace.title), screen) + "\n")
    if error is not None:
        raise error


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
