"""`xray demo`: the main job from end to end, into one folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from xray.config import TrainConfig

if TYPE_CHECKING:
    from xray.capture.targets.run import Run
    from xray.renderers.render import Form

RESULTS: "tuple[tuple[str, Form, str], ...]" = (
    ("poster.svg", "svg", "the poster, for the browser"),
    ("poster.png", "png", "the poster, as a picture"),
    ("poster.pdf", "pdf", "the poster, for A2 paper"),
    ("page.html", "html", "the same to walk through and to touch, for the browser"),
    ("tables.txt", "table", "every step with its shapes, axes and masks"),
    ("trace.json", "json", "the facts behind all of them: xray draw trace.json"),
)


def demo(
    out: Annotated[Path, typer.Option(help="The folder for poster, tables and trace.")] = Path("xray-demo"),
    run: Annotated[Path, typer.Option(help="The folder of the chatbot; one that is there is used.")] = Path(
        "runs/movie_qa"
    ),
    epochs: Annotated[
        int | None, typer.Option(min=1, help="How often every pair is seen.", show_default="as xray train")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="What all chance is drawn from.", show_default=str(TrainConfig.seed))
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to train.")] = "auto",
) -> None:
    """Train the science-fiction chatbot, record a training step and an answer, and draw the poster.

    Takes about two minutes on two processor cores. A chatbot that is already trained is used as it is, one that was
    stopped is trained to its end.
    """
    from xray.cli.output import check_writable, make_folder, say, write_file
    from xray.renderers.engine import load_graphviz
    from xray.text import show_controls

    load_graphviz()  # what is missing is said before two minutes of training
    make_folder(out)
    for name, _, _ in RESULTS:
        check_writable(out / name)
    chatbot = train_or_load(run, epochs, seed, device)
    recorded, page = chatbot.trace("both"), chatbot.trace("both", values="page")
    say(f'asked "{recorded.config["question"]}", it answers "{recorded.config["answer"]}"')
    from xray.renderers.render import render

    for name, form, what in RESULTS:
        write_file(out / name, render(page if form == "html" else recorded, form))
        say(f"  {show_controls(str(out / name)):<24} {what}")
    say(f"Next: open {show_controls(str(out / 'page.html'))}, or talk to it: xray chat --run {show_controls(str(run))}")


def train_or_load(folder: Path, epochs: int | None, seed: int | None, device: str) -> "Run":
    """The chatbot of a run folder, trained first as far as it is not yet."""
    from xray.capture.targets.run import Run, load
    from xray.cli.lesson import teach
    from xray.cli.output import say
    from xray.data.reading.examples import example_corpus
    from xray.data.reading.source import Source
    from xray.learn.runs.begin import begin_training, resume_training
    from xray.learn.runs.run_folder import RunFolder
    from xray.text import show_controls

    if not RunFolder(folder).holds_run:
        asked = {"epochs": epochs, "seed": seed}
        config = TrainConfig.from_dict({name: value for name, value in asked.items() if value is not None})
        with begin_training(Source(example_corpus()), folder, {}, config, device) as training:
            return Run(teach(training))
    with resume_training(folder, device=device) as training:
        check_same(training.trainer.config, folder, epochs=epochs, seed=seed)
        if not training.trainer.is_finished:
            return Run(teach(training))
    say(f"using the chatbot in {show_controls(str(folder))}; to train another: xray demo --run runs/other")
    return load(folder, device=device)


def check_same(config: TrainConfig, folder: Path, **asked: int | None) -> None:
    """Make sure that a chatbot that is there already was trained as is asked now.

    Raises:
        UsageError: it was not.
    """
    from xray.errors import UsageError
    from xray.text import show_controls

    for name, value in asked.items():
        was = getattr(config, name)
        if value not in (None, was):
            raise UsageError(
                f"--{name} {value}: the chatbot in {show_controls(str(folder))} was trained with {name} {was}. For "
                "another one, name another folder with --run."
            )
