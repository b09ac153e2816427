"""All that the cards tell of, and a card as such: a title around what is drawn."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xray.ir.trace import Trace
from xray.story.anatomy.tree import Anatomy, Tower
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Node
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.planning import Frame
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import wrap


@dataclass(frozen=True)
class Scored:
    """How many words a tower gives scores, for each of how many codes."""

    words: int = 0
    codes: int = 1


@dataclass(frozen=True)
class Told:
    """All that the cards tell of; `scored` has how many words those towers give scores that do, by their names."""

    trace: Trace
    anatomy: Anatomy
    frames: tuple[tuple[Tower, tuple[Frame, ...], Look], ...]
    stations: tuple[tuple[int, str], ...]
    shares: tuple[tuple[str, str, int], ...]
    left: float
    width: float
    roles: tuple[str, ...] = ("forward",)
    has_masks_beside: bool = False
    marked: str = ""
    has_condition: bool = False
    has_brought: bool = False
    has_between: bool = False
    has_ribbons: bool = True
    has_turns: bool = False
    unsaid: tuple[tuple[str, Counter[str]], ...] = ()
    scored: tuple[tuple[str, Scored], ...] = ()

    def list_left_out(self) -> list[tuple[Tower, list[int]]]:
        """The layers of each tower that stand in no frame, of towers that have such."""
        found = []
        for tower, frames, _ in self.frames:
            drawn = {layer for frame in frames for layer in frame.group.layers}
            left = sorted({layer for group in tower.groups for layer in group.layers} - drawn)
            found += [(tower, left)] if frames and left else []
        return found

    def nodes(self) -> Iterator[Node]:
        """Every node of every frame."""
        return (node for _, frames, _ in self.frames for node in list_nodes(frames))


def list_nodes(frames: Sequence[Frame]) -> Iterator[Node]:
    """Every node of some frames."""
    return (node for frame in frames for panel in frame.panels for node in panel.chart.nodes)


def draw_card(told: Told, canvas: Canvas, top: float, title: str, draw: Callable[[float], float]) -> float:
    """A card with a title around what is drawn in it."""
    start = len(canvas.panels)
    canvas.note(told.left + 14, top - 9, (words(title, LABEL - 1, "accent:title", "bold"),), "card")
    bottom = draw(top - 29) - 6
    canvas.panel(told.left, bottom, told.left + told.width, top, "card", 12, "card", 1.0)
    canvas.panels.insert(start, canvas.panels.pop())
    return bottom


def draw_bullets(told: Told, canvas: Canvas, y: float, said: Sequence[str]) -> float:
    for sentence in said:
        lines = tuple(words(line, NOTE) for line in wrap(sentence, NOTE, told.width - 40, canvas.measure))
        canvas.note(told.left + 14, y, (words("•", NOTE, "quiet"),), "card")
        y = canvas.note(told.left + 26, y, lines, "card").bottom - 3
    return y
