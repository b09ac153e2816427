"""How long it takes from a CSV to the first step, and how much memory: `xray train` on pairs of invented words.

Run: python benchmarks/preparing.py [--rows 200000]
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path
from random import Random

import numpy as np
from timing import machine, print_table

from xray.data.reading.source import Source
from xray.learn.runs.begin import begin_training

SYLLABLES = [
    "ka",
    "lo",
    "mi",
    "ter",
    "ban",
    "sol",
    "ni",
    "re",
    "wa",
    "du",
    "fen",
    "gor",
    "hu",
    "li",
    "po",
    "qua",
    "ris",
    "ta",
    "ve",
    "zo",
    "é",
    "an",
    "or",
    "in",
]
WORDS = 60_000


def main() -> None:
    """Print what the preparation of a corpus takes."""
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=200_000)
    wanted = options.parse_args()
    print(f"{machine()}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.csv"
        write_pairs(path, wanted.rows)
        before, watch = own_memory_mb(), Watch()
        wall, cpu = time.perf_counter(), time.process_time()
        with begin_training(Source(path), Path(folder) / "run", device="cpu") as training:
            next(training.go_on())
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        rows = [
            ["file", f"{path.stat().st_size / 1e6:,.0f} MB"],
            ["to the first step, by the clock", f"{wall:,.1f} s"],
            ["to the first step, CPU", f"{cpu:,.1f} s"],
            ["own memory before", f"{before:,} MB"],
            ["own memory at most", f"{watch.end():,} MB"],
        ]
        print_table(f"{wanted.rows:,} pairs", ["", "value"], rows)


def write_pairs(path: Path, rows: int) -> None:
    """Pairs of 3 to 21 words each, some of them far more frequent than others, as in real text."""
    chance, numbers = Random(2), np.random.default_rng(1)
    words = list({"".join(chance.choices(SYLLABLES, k=chance.choice((2, 3, 4)))): None for _ in range(WORDS)})
    shares = (1 / np.arange(1, len(words) + 1) ** 1.05).cumsum()
    with path.open("w", encoding="utf-8") as file:
        file.write("question,answer\n")
        for _ in range(rows):
            asked, said = numbers.integers(3, 16), numbers.integers(3, 22)
            chosen = np.searchsorted(shares / shares[-1], numbers.random(asked + said)).clip(0, len(words) - 1)
            text = [words[number] for number in chosen]
            file.write(f'{" ".join(text[:asked])}?,"{" ".join(text[asked:-1])}, {text[-1]}."\n')


class Watch:
    """The most memory that this process has had as its own since it was begun, looked at now and then."""

    def __init__(self) -> None:
        self.most = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self) -> None:
        """Look until it is over."""
        while not self.ended.wait(0.2):
            self.most = max(self.most, own_memory_mb())

    def end(self) -> int:
        """Megabytes."""
        self.ended.set()
        self.thread.join()
        return self.most


def own_memory_mb() -> int:
    """The memory that is no file's, in megabytes; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1000 for line in lines if line.startswith("RssAnon")), 0)


if __name__ == "__main__":
    main()
