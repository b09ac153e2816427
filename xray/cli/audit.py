"""`xray audit`: each mask followed from the argument to the kernel, and what is wrong with it."""

from pathlib import Path
from typing import Annotated

import typer

from xray.cli.options.of_sources import (
    BatchOption,
    ImageSizeOption,
    KindOption,
    SeqLenOption,
    TrustOption,
    make_request,
)


def audit(
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
    """Follow each mask from the argument to the kernel, and raise an alarm where one goes astray.

    Masks that reach no attention or not every layer, that are turned round, too weak or along the wrong axis; attention
    that sees the future; packed sequences that see each other; windows, padding sides, rows that see nothing, NaN. An
    alarm is proven by recorded steps or values. Exit code 0 without an alarm, 1 with one, 2 for an error.
    """
    import json
    from dataclasses import replace

    from xray.cli.anatomy import record_source
    from xray.cli.output import check_writable, say, write_file
    from xray.cli.screen.pager import show_long
    from xray.cli.screen.painting import pick_theme
    from xray.cli.screen.terminal import stdout_screen
    from xray.errors import UsageError
    from xray.renderers.table.audit import WIDEST, print_audit
    from xray.story.alarms.whole import audit as read
    from xray.text import show_controls

    if output is not None:
        if output.suffix.lower() != ".json":
            raise UsageError(f"an audit is written as JSON. End {show_controls(str(output))} in .json.")
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
        show_long(print_audit(found, screen) + "\n")
    if error is not None:
        raise error
    if found:
        raise typer.Exit(1)
