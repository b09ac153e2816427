"""How fast the movie chatbot learns: a step, and the way to a fixed loss, against two loops that people write.

Run: python benchmarks/training.py [--rounds 7] [--steps 130] [--loss 0.5] [--device cpu]
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from lecture import LectureLoop, PaddedPairs
from ordinary import OrdinaryLoop
from timing import machine, print_table, ratios, synchronise, take_turns
from torch import Tensor, nn

from xray.config import PAD, TrainConfig
from xray.data.reading.examples import example_corpus
from xray.data.reading.source import Source
from xray.learn.runs.begin import begin_training
from xray.learn.runs.saved_training import Training
from xray.learn.steps.trainer import Step, Trainer

OURS, LECTURE, ORDINARY = "X-Ray", "(a) the lecture's loop", "(b) torch.nn.Transformer, ordinary loop"
RATE = 1e-3
"""The learning rate of (a) and (b): generous, ten times the lecture's."""


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=130, help="steps in a round; 130 are an epoch")
    options.add_argument("--loss", type=float, default=0.5, help="the loss to reach, plain cross entropy a word")
    options.add_argument("--tries", type=int, default=3, help="seeds of the way to the loss")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    wanted = options.parse_args()
    print(f"{machine()}; device {wanted.device}\n")
    if wanted.rounds:
        time_steps(wanted)
    if wanted.tries:
        time_to_loss(wanted)


def time_steps(wanted: argparse.Namespace) -> None:
    """The seconds of a step of each loop."""
    with open_training(wanted.device, 0, 1000) as training:
        loops = make_loops(training, wanted.device)
        contestants = {name: repeat(step, wanted.steps) for name, (step, _) in loops.items()}
        timings = take_turns(contestants, wanted.rounds, wanted.steps)
    ours = timings[0]
    rows = [
        [one.name, f"{1000 * one.middle:.2f}", one.spread, "" if one is ours else ratios(one, ours)] for one in timings
    ]
    print_table(
        f"A step of 8 pairs ({wanted.rounds} rounds of {wanted.steps} steps, in turns)",
        ["loop", "ms, median", "ms, fastest to slowest", "X-Ray is faster by"],
        rows,
    )


def time_to_loss(wanted: argparse.Namespace) -> None:
    """The seconds until the training pairs are known so well; measuring that is not counted."""
    found: dict[str, list[tuple[float, int]]] = {OURS: [], LECTURE: [], ORDINARY: []}
    for seed in range(wanted.tries):
        for name in found:
            torch.manual_seed(seed)
            with open_training(wanted.device, seed, TrainConfig.epochs) as training:
                step, measure = make_loops(training, wanted.device)[name]
                found[name].append(reach(step, measure, wanted.loss, training.trainer.steps_per_epoch))
    rows = []
    for name, several in found.items():
        seconds = [one for one, _ in several]
        each = [one / other for one, (other, _) in zip(seconds, found[OURS], strict=True)]
        rows.append(
            [
                name,
                f"{median(seconds):.1f}",
                f"{min(seconds):.1f} to {max(seconds):.1f}",
                str(round(median(epochs for _, epochs in several))),
                "" if name == OURS else f"{median(each):.2f}x ({min(each):.2f} to {max(each):.2f})",
            ]
        )
    print_table(
        f"Until the loss on the training pairs is {wanted.loss} ({wanted.tries} seeds)",
        ["loop", "s, median", "s, fastest to slowest", "epochs", "X-Ray is faster by"],
        rows,
    )


Step_ = Callable[[], None]
Measure = Callable[[], float]


def make_loops(training: Training, device: str) -> dict[str, tuple[Step_, Measure]]:
    """A step and the loss of each loop, all on the same pairs and sizes."""
    pairs, trainer = list(training.train_pairs), training.trainer
    tokenisers, config = training.facts.tokenisers, training.facts.model
    length = int(trainer.train.lengths.max())
    padded = PaddedPairs(pairs, tokenisers.src.tokenizer, tokenisers.tgt.tokenizer, length)
    lecture = LectureLoop(config, padded, trainer.config.batch, RATE, device)
    samples = [tuple(ids[0] for ids in trainer.train.batch([number])) for number in range(len(pairs))]
    ordinary = OrdinaryLoop(config, samples, trainer.config.batch, RATE, device)  # type: ignore[arg-type]
    steps = (made for made in training.trainer.go_on() if isinstance(made, Step))
    return {
        OURS: (lambda: drop(next(steps)), lambda: measure_ours(trainer)),
        LECTURE: (lecture.step, lambda: measure(lecture)),
        ORDINARY: (ordinary.step, lambda: measure(ordinary)),
    }


def reach(step: Step_, measure_loss: Measure, loss: float, steps: int) -> tuple[float, int]:
    """The seconds and the epochs until the loss is that low, or 200 epochs are over."""
    seconds, epochs = 0.0, 0
    while epochs < 200:
        started = time.perf_counter()
        for _ in range(steps):
            step()
        synchronise()
        seconds, epochs = seconds + time.perf_counter() - started, epochs + 1
        if measure_loss() <= loss:
            break
    return seconds, epochs


@torch.no_grad()
def measure_ours(trainer: Trainer) -> float:
    """The plain loss a word on all training pairs."""
    trainer.model.eval()
    judge = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    total, words = 0.0, 0
    for start in range(0, len(trainer.train), 256):
        src, tgt = trainer.train.batch(range(start, min(start + 256, len(trainer.train))))
        targets = tgt[:, 1:].to(trainer.device)
        logits = trainer.model(src.to(trainer.device), tgt[:, :-1].to(trainer.device))
        total += float(judge(logits.flatten(0, 1), targets.flatten()))
        words += int((targets != PAD).sum())
    return total / words


@torch.no_grad()
def measure(loop: Any) -> float:  # noqa: ANN401  # LectureLoop or OrdinaryLoop
    """The plain loss a word on all training pairs."""
    loop.model.eval()
    judge = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    total, words = 0.0, 0
    for batch in loop.loader:
        logits, targets = loop.forward(batch)
        total += float(judge(logits.flatten(0, 1), targets.flatten()))
        words += int((targets != PAD).sum())
    loop.model.train()
    return total / words


@contextmanager
def open_training(device: str, seed: int, epochs: int) -> Iterator[Training]:
    """The default training on the movie corpus, in a folder of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        begin_training(
            Source(example_corpus()), Path(folder) / "run", config=TrainConfig(seed=seed, epochs=epochs), device=device
        ) as training,
    ):
        yield training


def repeat(step: Step_, times: int) -> Callable[[], None]:
    """A step made several times."""

    def run() -> None:
        for _ in range(times):
            step()

    return run


def drop(_: Step | Tensor) -> None:
    """Nothing; a step tells no more than that it was made."""


if __name__ == "__main__":
    main()
