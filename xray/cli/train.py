"""`xray train`: a chatbot taught from pairs, wherever they are."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xray.cli.options.groups import open_groups
from xray.cli.options.of_training import CorpusOptions, Device, LessonOptions, ModelOptions, Shard, TextOptions
from xray.cli.watching import Watching
from xray.config import TextConfig, TrainConfig
from xray.learn.presets import PRESETS, PresetName

if TYPE_CHECKING:
    from xray.data.reading.origin import Origin
    from xray.learn.runs.saved_training import Training
    from xray.learn.steps.processes import World


@open_groups
def train(
    corpus: CorpusOptions,
    text: TextOptions,
    lessons: LessonOptions,
    model: ModelOptions,
    watching: Watching,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files of pairs (.csv, .tsv, .jsonl, .parquet), or a data set on the hub (owner/name).",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--run", help="The folder of the run.", show_default="runs/<name of the file>"),
    ] = None,
    preset: Annotated[PresetName, typer.Option(help="The recipe to start from; options change it.")] = "movie",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in the folder stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    device: Device = "auto",
    shard: Shard = False,
) -> None:
    """Teach a chatbot pairs of texts; the run folder then holds all that `xray chat` and `xray trace` need.

    Ctrl-C stops after the step at hand and keeps everything; --resume goes on as if it had never stopped. On several
    processors or GPUs: torchrun --nproc-per-node 2 -m xray train FILE.csv; with --shard they divide the model too.
    """
    recipe = PRESETS[preset]
    chosen = {
        "model": recipe.model | model.settings(),
        "training": recipe.training | lessons.settings(),
        "text": recipe.text | text.settings(),
    }
    from xray.cli.screen.stopping import end_on_sigterm
    from xray.errors import UsageError, XRayError
    from xray.learn.runs.begin import begin_training
    from xray.learn.steps.processes import check_sharding, join_world

    if not pairs and not (resume and out):
        raise UsageError("which pairs? Name a file, as in: xray train examples/movie_qa.csv")
    if resume and overwrite:
        raise UsageError("--resume goes on with a run and --overwrite replaces it. Choose one of them.")
    config, cut = TrainConfig.from_dict(chosen["training"]), TextConfig.from_dict(chosen["text"])
    origin = corpus.find(pairs) if pairs else None
    folder = out or Path("runs") / (origin.stem if origin else "")
    watching.check()
    with end_on_sigterm(), join_world(device, shard) as world:
        try:
            check_sharding(world, device)
            if resume:
                wishes = chosen["model"] | chosen["training"] | chosen["text"]
                go_on(folder, origin, wishes, device, world, watching)
            elif origin is not None:
                opened = partial(begin_training, origin, folder, chosen["model"], config, device, overwrite, cut, world)
                begin(watching, opened)
        except XRayError as error:
            if world.is_writer:
                raise
            raise typer.Exit(error.exit_code) from None


def begin(watching: Watching, open_training: "Callable[..., AbstractContextManager[Training]]") -> None:
    """Train a new run."""
    from xray.cli.lesson import teach
    from xray.cli.output import say
    from xray.cli.screen.progress_choice import open_stages
    from xray.cli.screen.stopping import StoppedAtOnce

    with ExitStack() as opened:
        try:
            with open_stages() as tell:
                training = opened.enter_context(open_training(tell=tell))
        except (KeyboardInterrupt, StoppedAtOnce):
            say("stopped before the first step; the same command goes on with the preparation where it was.")
            raise
        teach(training, watching)


def go_on(
    folder: Path,
    origin: "Origin | None",
    wishes: dict[str, Any],
    device: str,
    world: "World",
    watching: Watching,
) -> None:
    """Train a run to its end."""
    from xray.cli.lesson import teach
    from xray.learn.runs.begin import resume_training

    with resume_training(folder, origin, wishes, device, world) as training:
        teach(training, watching)
