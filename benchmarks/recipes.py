"""How far training comes in equal epochs: the default recipe against others, on three kinds of corpora.

Run: OMP_NUM_THREADS=1 python benchmarks/recipes.py [--seeds 3] [--corpora language digits movies] [--recipes default]
"""

import argparse
import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import torch
from lecture import LectureLoop, PaddedPairs
from timing import machine, print_table
from torch.utils.data import DataLoader
from training import measure

from xray.config import TrainConfig
from xray.data.reading.examples import example_corpus
from xray.data.reading.origin import Origin
from xray.data.reading.source import Source
from xray.learn.runs.begin import begin_training
from xray.learn.runs.saved_training import Training

RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "cosine": {"schedule": "cosine", "warmup": 0.15},
    "constant 1e-3": {"schedule": "constant", "warmup": 0.0, "learning_rate": 1e-3},
    "constant 2.5e-3 after a climb": {"schedule": "constant"},
}
LECTURE = {"the lecture's loop, 1e-3": 1e-3}
"""The lecture's own code, model and all, at ten times its rate: with its own, 1e-4, it has learnt little by then."""

Texts = list[tuple[str, str]]


def main() -> None:
    """Print the losses at the end."""
    corpora: dict[str, tuple[str, Callable[[], Texts], int]] = {
        "language": ("made-up language", lambda: translate(3000), 6),
        "digits": ("digits to sort or turn round", lambda: reorder(2500), 8),
        "movies": ("movie_qa", read_movies, 15),
    }
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--corpora", nargs="+", choices=corpora, default=list(corpora))
    options.add_argument("--recipes", nargs="+", choices=(*RECIPES, *LECTURE), default=[*RECIPES, *LECTURE])
    wanted = options.parse_args()
    print(f"{machine()}\n")
    for name, make, epochs in (corpora[one] for one in wanted.corpora):
        pairs = make()
        print_table(
            f"{name}: {len(pairs):,} pairs, {epochs} epochs, {wanted.seeds} seeds (loss on pairs taught, held out)",
            ["recipe", "taught, mean", "held out, mean", *(f"seed {seed}" for seed in range(wanted.seeds)), "CPU s"],
            [show(recipe, pairs, epochs, wanted.seeds) for recipe in wanted.recipes],
        )


def show(recipe: str, pairs: Texts, epochs: int, seeds: int) -> list[str]:
    """The row of a recipe."""
    started = time.process_time()
    taught, held_out = zip(*(learn(pairs, epochs, seed, recipe) for seed in range(seeds)), strict=True)
    spent = (time.process_time() - started) / seeds
    each = [f"{one:.3f}, {other:.3f}" for one, other in zip(taught, held_out, strict=True)]
    return [recipe, f"{mean(taught):.3f}", f"{mean(held_out):.3f}", *each, f"{spent:.0f}"]


def learn(pairs: Texts, epochs: int, seed: int, recipe: str) -> tuple[float, float]:
    """The plain loss a word on pairs taught, and on a tenth held out."""
    config = TrainConfig(epochs=epochs, seed=seed, **RECIPES.get(recipe, {}))
    with open_training(pairs, config) as training:
        if recipe in LECTURE:
            return learn_as_lectured(training, LECTURE[recipe], seed)
        for _ in training.go_on():
            pass
        held = training.trainer.validate()
        training.trainer.valid = training.trainer.train
        return training.trainer.validate() or 0.0, held or 0.0


def learn_as_lectured(training: Training, rate: float, seed: int) -> tuple[float, float]:
    """The same of the lecture's loop, after as many steps."""
    trainer, tokenisers = training.trainer, training.facts.tokenisers
    torch.manual_seed(seed)
    length = int(max(trainer.train.lengths.max(), trainer.valid.lengths.max()))
    taught, held_out = (
        PaddedPairs(list(part), tokenisers.src.tokenizer, tokenisers.tgt.tokenizer, length)
        for part in (training.train_pairs, training.valid_pairs)
    )
    loop = LectureLoop(training.facts.model, taught, trainer.config.batch, rate, "cpu")
    for _ in range(trainer.steps):
        loop.step()
    losses = []
    for part in (taught, held_out):
        loop.loader = DataLoader(part, batch_size=256)
        losses.append(measure(loop))
    return losses[0], losses[1]


@contextmanager
def open_training(pairs: Texts, config: TrainConfig) -> Iterator[Training]:
    """A training on nine tenths of some pairs; the rest is held out, whatever the seed."""
    shuffled = pairs.copy()
    Random(5).shuffle(shuffled)
    edge = len(shuffled) // 10
    with tempfile.TemporaryDirectory() as folder:
        held_out, taught = (
            write(Path(folder) / name, part)
            for name, part in (("held_out.csv", shuffled[:edge]), ("taught.csv", shuffled[edge:]))
        )
        with begin_training(Origin((taught,), (held_out,)), Path(folder) / "run", {}, config, "cpu") as training:
            yield training


def write(path: Path, pairs: Texts) -> Source:
    """Pairs as a file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("question", "answer"), *pairs])
    return Source(path)


def read_movies() -> Texts:
    """The corpus of the chatbot."""
    with example_corpus().open(encoding="utf-8", newline="") as file:
        return [(row[0], row[1]) for row in list(csv.reader(file))[1:]]


def reorder(count: int) -> Texts:
    """Three to eight digits in words, to be sorted or said backwards."""
    chance, names = Random(4), ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        digits = [chance.randrange(10) for _ in range(chance.randint(3, 8))]
        how, wanted = chance.choice((("sort", sorted(digits)), ("reverse", digits[::-1])))
        pairs[" ".join([how, *(names[digit] for digit in digits)])] = " ".join(names[digit] for digit in wanted)
    return list(pairs.items())


def translate(count: int) -> Texts:
    """Sentences and their translation into a language with other words, genders, and another order."""
    chance = Random(3)
    nouns, adjectives, verbs = (
        [(f"{kind}{number}", f"{kind}u{number}") for number in range(size)]
        for kind, size in (("n", 150), ("a", 60), ("v", 60))
    )
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        sides = []
        for _ in range(2):
            (noun, its), (adjective, own) = chance.choice(nouns), chance.choice(adjectives)
            ending = "oa"[len(noun) % 2]
            sides.append((f"the {adjective} {noun}", f"l{ending} {its} {own}{ending}"))
        verb, done = chance.choice(verbs)
        denied = chance.random() < 0.2
        pairs[f"{sides[0][0]}{' not' * denied} {verb} {sides[1][0]}."] = (
            f"{sides[0][1]}{' ne' * denied} {done} {sides[1][1]}."
        )
    return list(pairs.items())


if __name__ == "__main__":
    main()
