"""Which shapes of a poster are asked for on a worksheet: by station and by share, drawn from a seed."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil

from xray.errors import UsageError
from xray.story.layout import Box, Layout, Line, Run
from xray.story.shapes import TIMES


@dataclass(frozen=True)
class Question:
    """A shape that a node prints: the node, the line that it stands on, its station, and the shape as one word."""

    box: Box
    line: int
    station: int
    answer: str


@dataclass(frozen=True)
class Blank:
    """A question with its number on the sheet."""

    number: int
    question: Question


@dataclass(frozen=True)
class Choice:
    """What is to be asked: which stations (all if none is named), what share of their shapes, the seed that picks them.

    Raises:
        UsageError: a station is below 1, or the share is not above 0 and at most 1.
    """

    stations: tuple[int, ...] = ()
    share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = [station for station in self.stations if station < 1]
        if wrong:
            raise UsageError(f"{wrong[0]} is no station. They count from 1, as in --stations 2,5.")
        if not 0 < self.share <= 1:
            raise UsageError(f"share={self.share:g} is out of range. It must be above 0 and at most 1, all of them.")

    @property
    def told(self) -> str:
        """In a few words, so that a sheet and its answers can be matched."""
        listed = ", ".join(map(str, sorted(set(self.stations))))
        stations = f"stations {listed}" if self.stations else "all stations"
        return f"{stations}, share {self.share:g}, seed {self.seed}"


def list_questions(layout: Layout) -> tuple[Question, ...]:
    """Every shape that a node of the poster prints, in reading order: station by station, bottom to top."""
    found = [question for box in layout.boxes if (question := read_question(box)) is not None]
    return tuple(sorted(found, key=lambda each: (each.station, each.box.y, each.box.x)))


def choose_blanks(layout: Layout, choice: Choice) -> tuple[Blank, ...]:
    """The shapes to be left out, numbered in reading order; the same layout and choice give the same ones.

    Nodes side by side with the same answer, such as the three linear layers, are asked together: one would give the
    others away. A larger share with the same seed asks the same shapes and more.

    Raises:
        UsageError: the stations have no shapes.
    """
    every = list_questions(layout)
    having = sorted({question.station for question in every})
    absent = sorted(set(choice.stations) - set(having))
    if absent or not every:
        raise UsageError(
            f"station {', '.join(map(str, absent))} of this trace has no shapes to ask for. "
            f"Choose among {', '.join(map(str, having))}."
        )
    asked = [question for question in every if not choice.stations or question.station in choice.stations]
    wanted = ceil(choice.share * len(asked))
    chosen: set[str] = set()
    for group in sorted(group_alike(asked), key=lambda group: rank(group[0].box.id, choice.seed)):
        if len(chosen) >= wanted:
            break
        chosen |= {question.box.id for question in group}
    kept = [question for question in asked if question.box.id in chosen]
    return tuple(Blank(number, question) for number, question in enumerate(kept, start=1))


def read_question(box: Box) -> Question | None:
    """The shape that a node prints; None for what is no node, or prints none."""
    if not box.filled or not box.kind.startswith("step ") or box.station is None:
        return None
    for place, line in enumerate(box.lines):
        shape = split_shape(line)[1]
        if shape:
            return Question(box, place, box.station, text_of(shape))
    return None


def split_shape(line: Line) -> tuple[Line, Line, Line]:
    """A line of text as what stands before its first shape, the shape, and what stands after it."""
    start = next((place for place, run in enumerate(line) if is_size(run)), None)
    if start is None:
        return line, (), ()
    end = start + 1
    while end + 1 < len(line) and line[end].text == TIMES and is_size(line[end + 1]):
        end += 2
    return line[:start], line[start:end], line[end:]


def is_size(run: Run) -> bool:
    """Whether a run is the size of an axis."""
    return run.ink.startswith("axis:") and run.weight == "bold"


def text_of(line: Iterable[Run]) -> str:
    """What a line says."""
    return "".join(run.text for run in line).strip()


def group_alike(questions: Sequence[Question]) -> list[list[Question]]:
    """Questions whose nodes stand side by side in one column and have the same answer."""
    groups: dict[tuple[str, float, str], list[Question]] = defaultdict(list)
    for question in questions:
        groups[question.box.kind, question.box.y, question.answer].append(question)
    return list(groups.values())


def rank(identity: str, seed: int) -> str:
    """Where a node stands in the order of a seed."""
    return sha256(f"{seed}/{identity}".encode()).hexdigest()
