"""`xray cost`: what it costs to run a model: parameters, memory, what is kept from word to word, FLOPs."""

from pathlib import Path
from typing import Annotated

import typer

from xray.cli.source_options import BatchOption, KindOption, TrustOption, make_request

LONGEST = 1 << 24


def cost(
    source: Annotated[
        str, typer.Argument(help="A model by its name, as hf:owner/model, or a folder or file with a config.json.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A .json file to write.", show_default=False)
    ] = None,
    at: Annotated[
        list[int] | None,
        typer.Option("--at", min=1, max=LONGEST, help="Another length to work out; may be given several times."),
    ] = None,
    kind: KindOption = None,
    batch: BatchOption = None,
    trust_remote_code: TrustOption = False,
) -> None:
    """Show what a model costs: its parameters, the most memory of inference and training, its cache, its FLOPs.

    It runs without storage, at four lengths; how long each tensor lives is seen, not estimated. Other lengths follow
    from exact laws, each tested at a length that it was not made from.
    """
    import json

    from xray.cli.keeping_stdout import keep_stdout
    from xray.cli.output import check_writable, say, write_file, write_stdout
    from xray.errors import UsageError
    from xray.renderers.cost import print_cost
    from xray.sources.costing import cost_by_name
    from xray.text import show_controls

    if output is not None:
        if output.suffix.lower() != ".json":
            raise UsageError(f"costs are written as JSON. End {show_controls(str(output))} in .json.")
        check_writable(output)
    with keep_stdout():
        found = cost_by_name(source, make_request((), True, kind, batch or 1, None, None, trust_remote_code))
    if output is not None:
        write_file(output, json.dumps(found.to_dict(), indent=2) + "\n")
        say(f"wrote {show_controls(str(output))}")
    else:
        write_stdout(print_cost(found, at or ()) + "\n")
