"""`xray cost`: what it costs to run a model: parameters, memory, what is kept from word to word, FLOPs."""

from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import typer

from xray.cli.options.of_sources import PANEL, KindOption, TrustOption, make_request

MOST = {"--seq-len": 1 << 24, "--batch": 1 << 16}
MOST_SIZES = 64


def cost(
    source: Annotated[
        str, typer.Argument(help="A model by its name, as hf:owner/model, or a folder or file with a config.json.")
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            help="A file to write: .json, or .svg for a plot over the length; may be given several times.",
            show_default=False,
        ),
    ] = None,
    seq_len: Annotated[
        str | None,
        typer.Option(
            "--seq-len",
            help="The lengths to tell of, as 1024,131072.",
            show_default="up to what its settings name",
            rich_help_panel=PANEL,
        ),
    ] = None,
    batch: Annotated[
        str,
        typer.Option("--batch", help="How many inputs at a time, as 1,8.", rich_help_panel=PANEL),
    ] = "1",
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        typer.Option(help="The type of all weights.", show_default="what its settings name", rich_help_panel=PANEL),
    ] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw bytes and FLOPs over the length, in letters.")] = False,
    kind: KindOption = None,
    trust_remote_code: TrustOption = False,
) -> None:
    """Show what a model costs: its parameters, the most memory of inference and training, its cache, its FLOPs.

    It runs without storage, at the longest length and a few others; how long each tensor lives is seen, not estimated.
    What lies between follows from exact laws, each tested at sizes that it was not made from; where none holds, no
    number is told.
    """
    import json
    from dataclasses import replace

    from xray.cli.keeping_stdout import keep_stdout
    from xray.cli.output import check_writable, say, write_file, write_stdout
    from xray.cli.screen.terminal import terminal_width
    from xray.errors import UsageError
    from xray.renderers.cost_plot import draw_plot, print_plot
    from xray.renderers.table.cost import print_cost
    from xray.sources.costing import cost_by_name
    from xray.text import show_controls

    lengths, batches = read_numbers("--seq-len", seq_len), read_numbers("--batch", batch)
    if len(lengths) * len(batches) > MOST_SIZES:
        raise UsageError(f"{len(lengths) * len(batches)} sizes are too many. Ask for at most {MOST_SIZES} at a time.")
    for path in output or ():
        if path.suffix.lower() not in (".json", ".svg"):
            raise UsageError(f"costs are written as .json or .svg, not {show_controls(str(path))}. Choose one of them.")
        check_writable(path)
    with keep_stdout():
        request = replace(make_request((), True, kind, None, None, None, trust_remote_code), dtype=dtype)
        found = cost_by_name(source, request, lengths, batches)
    for path in output or ():
        is_json = path.suffix.lower() == ".json"
        write_file(path, json.dumps(found.to_dict(), indent=2) + "\n" if is_json else draw_plot(found, batches[0]))
        say(f"wrote {show_controls(str(path))}")
    if not output:
        told = sorted(lengths) or sorted({run.length for run in found.runs if run.training is not None})
        write_stdout(print_cost(found, list(product(batches, told)), terminal_width()) + "\n")
    if plot:
        write_stdout("\n" + print_plot(found, batches[0], min(terminal_width(), 100)) + "\n")


def read_numbers(option: str, text: str | None) -> list[int]:
    """Whole numbers with commas between them.

    Raises:
        UsageError: they are none, or too large.
    """
    from xray.errors import UsageError
    from xray.text import show_controls

    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if all(part.isdecimal() and 1 <= int(part) <= MOST[option] for part in parts) and (parts or text is None):
        return list(dict.fromkeys(map(int, parts)))
    raise UsageError(
        f"{option} {show_controls(text or '')!r} is no list of numbers from 1 to {MOST[option]:,}. "
        f"Write them with commas, as {option} 1,8."
    )
