"""Tokens of real text a second, at the lecture's size: X-Ray against the lecture's loop and `torch.nn.Transformer`.

Run: OMP_NUM_THREADS=1 python benchmarks/translating.py [--rounds 2] [--steps 3] [--device cpu]

Texts are as long as in the lecture's corpus of books: half of them below 22 tokens, a few of more than 150. Only
words of answers are counted, not what fills a batch up. On the CPU its own seconds are counted, which
other programs do not lengthen.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from lecture import LectureLoop, PaddedPairs
from ordinary import OrdinaryLoop
from timing import machine, print_table, synchronise

from xray.config import PAD, Precision, TextConfig, TrainConfig
from xray.data.reading.source import Source
from xray.learn.presets import PRESETS
from xray.learn.runs.begin import begin_training
from xray.learn.steps.made import Step as Steps
from xray.learn.steps.trainer import Trainer

LONGEST = 340
MIDDLE, SPREAD = 22, 0.75
"""The median of the lengths, and how wide their logarithms are spread."""

OURS: dict[str, Precision] = {"X-Ray": "float32", "X-Ray, --precision bfloat16": "bfloat16"}
LECTURE, ORDINARY = "the lecture's loop", "torch.nn.Transformer, ordinary loop"
OURS_FOR_ONE = 8
Step = Callable[[], int]
"""A step, which says how many words it has learnt from."""


def main() -> None:
    """Print how fast each of them is."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--pairs", type=int, default=1600)
    options.add_argument("--vocab", type=int, default=30_000)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    wanted = options.parse_args()
    print(f"{machine()}; device {wanted.device}\n")
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, step in open_loops(Path(folder), wanted):
            words_a_second(step, 1, wanted.device)
            rates[name] = [words_a_second(step, wanted.steps, wanted.device) for _ in range(wanted.rounds)]
    ours = rates["X-Ray"]
    rows = [
        [
            name,
            f"{median(each):,.0f}",
            f"{min(each):,.0f} to {max(each):,.0f}",
            f"{median(mine / one for mine, one in zip(ours, each, strict=True)):.2f}x",
        ]
        for name, each in rates.items()
    ]
    print_table(
        f"Steps of 8 pairs of real lengths, 6+6 layers, d_model 512 ({wanted.rounds} rounds of {wanted.steps} steps)",
        ["loop", "tokens a second, median", "least to most", "X-Ray in float32 is faster by"],
        rows,
    )


def words_a_second(step: Step, times: int, device: str) -> float:
    """The words that a second of several steps teaches."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    synchronise()
    started = clock()
    words = sum(step() for _ in range(times))
    synchronise()
    return words / (clock() - started)


def open_loops(folder: Path, wanted: argparse.Namespace) -> Iterator[tuple[str, Step]]:
    """A step of each loop, on the same pairs and with the same sizes; one model is in memory at a time."""
    path = folder / "pairs.csv"
    write_pairs(path, wanted.pairs, wanted.vocab)
    for name, precision in OURS.items():
        with begin(path, folder / precision, wanted, precision) as ours:
            yield name, our_step(ours.trainer)
    trainer, tokenisers, config = ours.trainer, ours.facts.tokenisers, ours.facts.model
    pairs = list(ours.train_pairs)
    samples: Any = [tuple(ids[0] for ids in trainer.train.batch([number])) for number in range(len(pairs))]
    del ours, trainer
    padded = PaddedPairs(pairs, tokenisers.src.tokenizer, tokenisers.tgt.tokenizer, config.max_len)
    yield LECTURE, their_step(LectureLoop(config, padded, 8, 1e-4, wanted.device))
    yield ORDINARY, their_step(OrdinaryLoop(config, samples, 8, 1e-4, wanted.device))


def begin(path: Path, folder: Path, wanted: argparse.Namespace, precision: Precision):  # noqa: ANN201  # a context
    """A training with the lecture's settings."""
    preset = PRESETS["lecture"]
    config = TrainConfig(**{**preset.training, "valid_share": 0.0, "precision": precision})
    settings = {**preset.model, "tgt_vocab": wanted.vocab}
    text = TextConfig(tgt_limit=wanted.vocab)
    return begin_training(Source(path), folder, settings, config, wanted.device, text=text)


def our_step(trainer: Trainer) -> Step:
    """As many steps of X-Ray as take about as long as one of the others: its batches differ in length."""
    made = (one for one in trainer.go_on() if isinstance(one, Steps))
    return lambda: sum(next(made).tokens for _ in range(OURS_FOR_ONE))


def their_step(loop: Any) -> Step:  # noqa: ANN401  # LectureLoop or OrdinaryLoop
    """A step of another loop."""
    forward, learnt = loop.forward, []

    def count(batch: Any) -> Any:  # noqa: ANN401
        logits, targets = forward(batch)
        learnt.append(int((targets != PAD).sum()))
        return logits, targets

    def step() -> int:
        loop.step()
        return learnt[-1]

    loop.forward = count
    return step


def write_pairs(path: Path, count: int, vocab: int) -> None:
    """Pairs of words in no order, each word once and then by chance, as long as texts are."""
    chance = np.random.default_rng(0)
    lengths = np.exp(chance.normal(np.log(MIDDLE), SPREAD, (count, 2))).clip(2, LONGEST).astype(int)
    once = [iter(chance.permutation(vocab - 4)) for _ in range(2)]
    with path.open("w", encoding="utf-8") as file:
        file.write("question,answer\n")
        for sizes in lengths:
            sides = (
                " ".join(f"w{next(words, chance.integers(vocab - 4))}" for _ in range(size))
                for size, words in zip(sizes, once, strict=True)
            )
            file.write(",".join(sides) + "\n")


if __name__ == "__main__":
    main()
