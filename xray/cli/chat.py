"""`xray chat`: talking to a chatbot."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from xray.cli.options.of_sources import DEFAULT_RUN

Beam = Annotated[int, typer.Option(help="How many answers are followed at once; 1 is greedy.")]
LengthPenalty = Annotated[float, typer.Option(help="With --beam: 0 favours short answers, 1 weighs each word alike.")]


def check_beam(context: typer.Context, beam: int) -> None:
    """Make sure that nothing is asked of a search that does not take place.

    Raises:
        UsageError: a length penalty without a beam.
    """
    from xray.cli.options.given import refuse

    if beam == 1:
        refuse(context, ("length_penalty",), "one answer alone has no rival to be weighed against. Add --beam 4.")


def chat(
    context: typer.Context,
    run: Annotated[Path, typer.Option(help="The folder of a trained chatbot.")] = DEFAULT_RUN,
    checkpoint: Annotated[
        Literal["last", "best", "average"],
        typer.Option(help="The last weights, those best on held-out pairs, or the mean of the last epochs."),
    ] = "last",
    beam: Beam = 1,
    length_penalty: LengthPenalty = 0.6,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")] = "auto",
) -> None:
    """Talk to a trained chatbot; with questions on stdin, one in each line, their answers go to stdout.

    In the chat, /why shows how sure it was of every word, /ideas suggests questions, /quit leaves.
    """
    from xray.cli.conversation import answer_lines, converse, is_interactive
    from xray.learn.answers.decode import Way
    from xray.learn.runs.load import load_run

    check_beam(context, beam)
    chatbot = load_run(run, device, checkpoint, Way(beam, length_penalty))
    if is_interactive():
        converse(chatbot)
    else:
        answer_lines(chatbot)
