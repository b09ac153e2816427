"""Whether progress is shown as a bar or in lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from xray.cli.screen.progress import Lines, Progress, StageLines
from xray.data.stages import Tell
from xray.learn.runs.saved_training import Training


@contextmanager
def open_progress(training: Training) -> Iterator[Progress]:
    """Inside the block progress is shown: on a terminal as a bar below what is said."""
    if not is_terminal():
        yield Lines(training)
        return
    from xray.cli.screen.progress_bar import Bar

    bar = Bar(training)
    with bar.rich_progress:
        yield bar


@contextmanager
def open_stages() -> Iterator[Tell]:
    """Inside the block the stages of a preparation are shown."""
    if not is_terminal():
        yield StageLines()
        return
    from xray.cli.screen.progress_bar import StageBar

    bar = StageBar()
    with bar.rich_progress:
        yield bar


def is_terminal() -> bool:
    """Whether somebody watches."""
    return sys.stderr is not None and sys.stderr.isatty()
