"""A corpus, a model and a lesson so small that a test can afford them, and the real lesson for those that need it."""

import csv
from typing import Any

from xray.config import TrainConfig
from xray.data.pairs import Pair
from xray.data.reading.source import Source
from xray.learn.runs.begin import begin_training

PAIRS = tuple(
    Pair(question, answer)
    for question, answer in (
        ("Hello!", "Hello, friend!"),
        ("Who is Ripley?", "The bravest woman aboard."),
        ("Who is Spock?", "A Vulcan."),
        ("Do you like robots?", "Yes, I am one!"),
        ("What is a Jedi?", "A knight with a sword of light."),
        ("Who leads the ship?", "Captain Kirk leads it."),
        ("Where is the ship?", "Far away."),
        ("What's your name?", "X-Ray, my friend."),
        ("Is space big?", "Yes, very."),
        ("Is the ship big?", "Yes, very."),
        ("Is space far away?", "Yes, my friend."),
        ("Who is a robot?", "I am one!"),
        ("Who is a Jedi?", "A friend."),
        ("Who is a friend?", "Spock is my friend."),
        ("Who is the captain?", "Kirk is."),
        ("What is space?", "Far away."),
        ("What is light?", "A friend."),
    )
)
MODEL: dict[str, Any] = {
    "d_model": 22,
    "heads": 2,
    "d_ff": 13,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "max_len": 19,
    "dropout": 0.1,
}
LESSONS: dict[str, Any] = {"epochs": 5, "batch": 3, "valid_share": 0.1, "seed": 7}


def write_pairs(path, pairs=PAIRS):
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "answer"])
        rows.writerows((pair.question, pair.answer) for pair in pairs)
    return path


def begin_small(folder, pairs=PAIRS, settings=(), lessons=(), **options):
    """A small training in `folder`/run on pairs in `folder`/pairs.csv."""
    source = Source(write_pairs(folder / "pairs.csv", pairs))
    config = TrainConfig(**{**LESSONS, **dict(lessons)})
    return begin_training(source, folder / "run", {**MODEL, **dict(settings)}, config, "cpu", **options)


def finish_small(folder, **options):
    """The folder of a small run, trained to its end."""
    with begin_small(folder, **options) as training:
        for _ in training.go_on():
            pass
    return folder / "run"
