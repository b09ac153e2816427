"""`xray answer`: a file of questions, answered."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from xray.cli.chat import Beam, LengthPenalty, check_beam
from xray.cli.options.of_sources import DEFAULT_RUN


def answer(
    context: typer.Context,
    questions: Annotated[
        Path, typer.Argument(help="A text file with a question in each line; - for stdin.", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The file of answers.", show_default="stdout")] = None,
    run: Annotated[Path, typer.Option(help="The folder of a trained chatbot.")] = DEFAULT_RUN,
    checkpoint: Annotated[
        Literal["last", "best", "average"],
        typer.Option(help="The last weights, those best on held-out pairs, or the mean of the last epochs."),
    ] = "last",
    beam: Beam = 1,
    length_penalty: LengthPenalty = 0.6,
    batch: Annotated[int, typer.Option(min=1, max=65_536, help="Questions that are answered at a time.")] = 256,
    encoding: Annotated[str, typer.Option(help="How the file is encoded.")] = "utf-8",
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")] = "auto",
) -> None:
    """Answer every line of a file with a line of its own; a blank line stays blank."""
    from xray.cli.batch_answers import answer_file
    from xray.learn.answers.decode import Way
    from xray.learn.runs.load import load_run

    check_beam(context, beam)
    way = Way(beam, length_penalty)
    answer_file(load_run(run, device, checkpoint, way), questions, out, batch, encoding)
