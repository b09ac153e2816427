"""What is shown of a training besides its progress: the curve of its losses, TensorBoard, scores."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from xray.cli.output import say
from xray.errors import UsageError
from xray.text import show_controls

MOST_SCORED = 2000
"""The most answers that are scored."""


@dataclass(frozen=True)
class Watching:
    """What was asked to be shown."""

    tensorboard: Annotated[
        bool,
        typer.Option(
            "--tensorboard",
            help="Write losses for TensorBoard too (needs the extra: tensorboard).",
            rich_help_panel="What is shown",
        ),
    ] = False
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Error rates of letters and words, and BLEU, at the end (needs the extra: scores).",
            rich_help_panel="What is shown",
        ),
    ] = False

    def check(self) -> None:
        """Make sure, before any work is done, that what is needed is installed.

        Raises:
            UsageError: an extra is missing.
        """
        for wanted, option, module, extra in (
            (self.tensorboard, "--tensorboard", "tensorboard", "tensorboard"),
            (self.scores, "--scores", "torchmetrics", "scores"),
        ):
            if wanted and find_spec(module) is None:
                raise UsageError(
                    f"{option} needs the package {module}, which is not installed. Install it: "
                    f'pip install "transformer-xray[{extra}]"'
                )

    @contextmanager
    def of(self, training: Any) -> Iterator[Callable[[Any], None]]:  # noqa: ANN401  # imported when it is used
        """Inside the block every step and epoch of a training can be shown."""
        if not self.tensorboard:
            yield lambda made: None
            return
        with open_tensorboard(training) as watch:
            yield watch

    def describe_scores(self, training: Any, chatbot: Any) -> None:  # noqa: ANN401
        """Say how near the answers are to those wanted, if that was asked for."""
        if not self.scores:
            return
        from xray.learn.answers.scores import score_answers

        held_out = bool(training.valid_pairs)
        pairs = (training.valid_pairs if held_out else training.train_pairs)[:MOST_SCORED]
        found = score_answers(chatbot, pairs)
        say(
            f"on {len(pairs):,} {'held-out' if held_out else 'learnt'} pairs: letter error rate {found.letters:.1%}, "
            f"word error rate {found.words:.1%}, BLEU {found.bleu:.1f}."
        )


@contextmanager
def open_tensorboard(training: Any) -> Iterator[Callable[[Any], None]]:  # noqa: ANN401
    """Inside the block losses and rates are written to the run's folder, for TensorBoard to read."""
    from torch.utils.tensorboard import SummaryWriter

    from xray.learn.runs.run_folder import LOGS
    from xray.learn.steps.made import Epoch, Step

    with SummaryWriter(str(training.folder.path / LOGS)) as writer:

        def watch(made: Step | Epoch) -> None:
            trainer = training.trainer
            if isinstance(made, Step):
                if made.loss is not None:
                    writer.add_scalar("loss/step", made.loss, made.number)
                    writer.add_scalar("learning_rate", trainer.optimiser.param_groups[0]["lr"], made.number)
                return
            writer.add_scalar("loss/epoch", made.loss, made.number)
            if made.valid_loss is not None:
                writer.add_scalar("loss/held_out", made.valid_loss, made.number)

        yield watch


def show_curve(training: Any) -> None:  # noqa: ANN401
    """Draw how the losses fell: in the terminal, and as a picture into the run's folder."""
    from xray.learn.runs.run_folder import CURVE
    from xray.renderers.curve import Curve, draw_curves, draw_curves_as_svg

    past = training.trainer.history
    if len(past) < 2:
        return
    curves = [Curve("loss", tuple(epoch.loss for epoch in past))]
    if all(epoch.valid_loss is not None for epoch in past):
        curves.append(Curve("held out", tuple(epoch.valid_loss for epoch in past)))
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    can_block = "█".encode(encoding, "ignore") != b""
    width = min(100, get_terminal_size().columns - 1)
    say(draw_curves(curves, width=width, height=10, plain=not can_block))
    training.folder.write(CURVE, draw_curves_as_svg(curves, "epoch").encode())


def say_what_is_best(training: Any) -> None:  # noqa: ANN401
    """Say where the held-out loss was lowest, if that was before the end."""
    trainer = training.trainer
    best = max((epoch.number for epoch in trainer.history if epoch.is_best), default=None)
    if trainer.is_stale and trainer.epoch < trainer.config.epochs:
        say(f"stopped early: the held-out loss has not fallen for {trainer.config.patience:,} epochs.")
    folder = quote(show_controls(str(Path(training.folder.path))))
    if best is not None and best < trainer.epoch:
        epoch = trainer.history[best - 1]
        told = f"lowest held-out loss {epoch.valid_loss:.3f}"
        if epoch.right is not None:
            told = f"most held-out answers right ({epoch.right:.1%})"
        say(f"{told} after epoch {best:,}; those weights are kept too: xray chat --run {folder} --checkpoint best")
    if trainer.history and trainer.mean is not None:
        mean_loss = trainer.history[-1].mean_loss
        told = "" if mean_loss is None else f" has held-out loss {mean_loss:.3f} and"
        say(
            f"the mean of the weights after the last {trainer.config.average:,} epochs{told} is kept too: "
            f"xray chat --run {folder} --checkpoint average"
        )
