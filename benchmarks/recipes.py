"""How far training comes in equal epochs: the default recipe against constant rates, on three kinds of corpora.

Run: python benchmarks/recipes.py [--seeds 2]
"""

import argparse
import csv
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from timing import machine, print_table

from xray.config import TrainConfig
from xray.data.reading.examples import example_corpus
from xray.data.reading.origin import Origin
from xray.data.reading.source import Source
from xray.learn.runs.begin import begin_training

RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "cosine": {"schedule": "cosine", "warmup": 0.15},
    "constant 1e-3": {"schedule": "constant", "warmup": 0.0, "learning_rate": 1e-3},
    "constant 2e-3 after a climb": {"schedule": "constant", "warmup": 0.05, "learning_rate": 2e-3},
}
Texts = list[tuple[str, str]]


def main() -> None:
    """Print the losses at the end."""
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=2)
    wanted = options.parse_args()
    print(f"{machine()}\n")
    for name, pairs, epochs in (
        ("made-up language", translate(3000), 6),
        ("digits to sort or turn round", reorder(2500), 8),
        ("movie_qa", read_movies(), 15),
    ):
        rows = [
            [
                recipe,
                *(
                    f"{train:.3f}, {held:.3f}"
                    for train, held in (learn(pairs, epochs, seed, recipe) for seed in range(wanted.seeds))
                ),
            ]
            for recipe in RECIPES
        ]
        print_table(
            f"{name}: {len(pairs):,} pairs, {epochs} epochs",
            ["recipe", *(f"seed {seed}" for seed in range(wanted.seeds))],
            rows,
        )


def learn(pairs: Texts, epochs: int, seed: int, recipe: str) -> tuple[float, float]:
    """The plain loss a word on pairs taught, and on a tenth held out."""
    shuffled = pairs.copy()
    Random(5).shuffle(shuffled)
    edge = len(shuffled) // 10
    with tempfile.TemporaryDirectory() as folder:
        held_out, taught = (
            write(Path(folder) / name, part)
            for name, part in (("held_out.csv", shuffled[:edge]), ("taught.csv", shuffled[edge:]))
        )
        config = TrainConfig(epochs=epochs, seed=seed, **RECIPES[recipe])
        with begin_training(Origin((taught,), (held_out,)), Path(folder) / "run", {}, config, "cpu") as training:
            for _ in training.go_on():
                pass
            held = training.trainer.validate()
            training.trainer.valid = training.trainer.train
            return training.trainer.validate() or 0.0, held or 0.0


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
