"""Marks on the drawing of any model: the list under its title, and what a marked node looks like."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xray.renderers.blocks.nodes import Drawn
from xray.renderers.themes import Theme
from xray.story.compare.marks import Mark, Marks
from xray.story.compare.outlines import MOST_LISTED, describe_place, operand_line
from xray.story.failure.operands import Operand
from xray.story.layout import Line, Run

MOST_OPERANDS, LONGEST = 5, 96


@dataclass(frozen=True)
class NodeMark:
    """A mark with its number, as a node bears it."""

    role: Literal["change", "failure"]
    number: int
    mark: Mark


def mark_nodes(drawn: Drawn, marks: Marks | None) -> dict[str, NodeMark]:
    """The marks of a group of passes by the node that they belong to, each node's first; a frame's by its step."""
    found: dict[str, NodeMark] = {}
    ours = {(one.kind, one.number) for one in drawn.group.passes}
    for place, mark in enumerate(marks.steps if marks is not None else ()):
        node = drawn.holder(mark.step) if (mark.kind, mark.number) in ours else None
        if marks is not None and (mark.kind, mark.number) in ours:
            found.setdefault(mark.step if node is None else node, NodeMark(marks.paint, place + 1, mark))
    return found


def list_marks(marks: Marks) -> list[Line]:
    """The heading, the first marks, and what has no place on the drawing."""
    lines: list[Line] = [(Run(" ", 8),), (Run(marks.heading, 16, "accent:warning", "bold"),)]
    for place, mark in enumerate(marks.steps[:MOST_LISTED]):
        number = (Run(f"{place + 1}   ", 15, "accent:warning", "bold"),) if len(marks.steps) > 1 else ()
        path = Run(cut(mark.step.removesuffix("#0")), 15, "text", "bold")
        where = (Run(describe_place(mark), 13, "quiet"),) if describe_place(mark) else ()
        lines.append((*number, path, *where))
        if mark.operands:
            lines.append((Run("    ", 13), *describe_operands(mark.operands, "accent:warning")))
        if mark.text:
            lines += [(Run("    ", 13), Run(line, 13, "text", "semibold")) for line in broken(mark.text)]
    rest = len(marks.steps) - MOST_LISTED
    more = [f"and {rest:,} more, outlined"] if rest > 0 else []
    return [*lines, *((Run(line, 12, "quiet"),) for note in (*more, *marks.notes) for line in broken(note))]


def marked_lines(lines: Sequence[Line], node: NodeMark, ink: str = "text") -> list[Line]:
    """The lines of a node, or of a frame, between the mark's number and its tensors side by side."""
    said = "FAILED HERE" if node.role == "failure" else f"{node.number} · CHANGED"
    told: list[Line] = [(Run(said, 13, ink, "black"),), *lines]
    if node.mark.operands:
        told.append(describe_operands(node.mark.operands, ink))
    return told + [(Run(line, 11, "text", "semibold"),) for line in broken(node.mark.text, 56)]


def outline(node: NodeMark, theme: Theme) -> dict[str, str]:
    """The pen of a marked node, thickest for the first."""
    return {"color": theme.lines[node.role], "penwidth": "6" if node.number == 1 else "3.5"}


def describe_operands(operands: Sequence[Operand], ink: str) -> Line:
    return operand_line(operands[:MOST_OPERANDS], max(0, len(operands) - MOST_OPERANDS), ink)


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def broken(text: str, width: int = LONGEST) -> list[str]:
    """A sentence on at most three lines."""
    lines = [""] if text else []
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {cut(word)}".strip()
    return lines if len(lines) <= 3 else [*lines[:2], lines[2][: width - 2] + " …"]
