"""Contestants timed in turns, so that a busy moment of the machine meets all of them, and a table of what came out."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Timing:
    """The seconds of every round of one contestant."""

    name: str
    seconds: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median round."""
        return median(self.seconds)

    @property
    def spread(self) -> str:
        """The fastest and the slowest round, in milliseconds."""
        return f"{1000 * min(self.seconds):.2f} to {1000 * max(self.seconds):.2f}"


def take_turns(
    contestants: dict[str, Callable[[], None]],
    rounds: int,
    repeats: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Time every contestant once a round, after one round that does not count; the seconds of one of its `repeats`."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            started = clock()
            run()
            synchronise()
            if number:
                seconds[name].append((clock() - started) / repeats)
    return [Timing(name, tuple(times)) for name, times in seconds.items()]


def ratios(slow: Timing, fast: Timing) -> str:
    """How many times as long the one takes as the other: the median of all rounds, the least and the most."""
    each = [one / other for one, other in zip(slow.seconds, fast.seconds, strict=True)]
    return f"{median(each):.2f}x ({min(each):.2f} to {max(each):.2f})"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout, in Markdown where it goes into a file."""
    console = Console()
    if console.is_terminal:
        table = Table(title=title)
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return
    lines = [f"**{title}**", "", "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    print("\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]))


def machine() -> str:
    """What the numbers were measured on."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} CPU cores, no GPU"
    return f"{platform.machine()}, {device}, torch {torch.__version__}, Python {platform.python_version()}"


def synchronise() -> None:
    """Wait until a GPU has done what it was told."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
