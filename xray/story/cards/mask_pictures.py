"""The masks that a model's attentions read, large: cell by cell where they were kept, in words where they were not."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.records import FUTURE, VISIBLE, MaskFacts
from xray.story.canvas import Canvas, words
from xray.story.facts.masks import draws_blocks, quarter_blocks
from xray.story.layout import Cells, Run
from xray.story.sentences.of_masks import Shown, describe_hidden, describe_shown, list_letters
from xray.story.shapes import ShapeText, digits
from xray.story.type_sizes import LABEL, NOTE, OP
from xray.story.wording import wrap

MOST, LARGEST, SMALLEST, AISLE = 24, 20.0, 4.0, 24.0
CORNER, MEANT = 14, 20.0


@dataclass(frozen=True)
class MaskCard:
    """One mask: who reads it, its shape and facts, and the steps behind it."""

    id: str
    title: str
    shape: ShapeText
    facts: MaskFacts
    tooltip: str
    steps: tuple[str, ...]

    @property
    def is_corner(self) -> bool:
        """Whether the cells were too many to keep, but are told by the kind of mask: nobody sees the future."""
        sizes = self.shape.sizes[-2:]
        return self.facts.cells is None and self.facts.kind == "causal" and len(set(sizes)) == 1

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The cells to draw: those of one matrix, the first ones of many; none where they are not known."""
        if self.facts.blocks is not None and draws_blocks(self.facts):
            return tuple(row[:MOST] for row in quarter_blocks(self.facts.blocks)[:MOST])
        if self.is_corner:
            return tuple(tuple(VISIBLE if key <= query else FUTURE for key in range(CORNER)) for query in range(CORNER))
        if not self.facts.cells:
            return ()
        matrices = self.facts.cells
        if all(len(matrix) == 1 for matrix in matrices):
            return tuple(tuple(matrix[0][self.start : self.start + MOST]) for matrix in matrices[:MOST])
        return tuple(tuple(row[:MOST]) for row in matrices[self.drawn][:MOST])

    @property
    def start(self) -> int:
        """The first key that is drawn of masks of one row each: not 0 where these hide nothing before many keys."""
        matrices = self.facts.cells or ()
        if self.facts.blocks is not None or not matrices or any(len(matrix) != 1 for matrix in matrices):
            return 0
        rows = [matrix[0] for matrix in matrices[:MOST]]
        hiding = min((place for row in rows for place, cell in enumerate(row) if cell != VISIBLE), default=0)
        return max(0, min(hiding - MOST // 2, len(rows[0]) - MOST)) if hiding >= MOST else 0

    @property
    def drawn(self) -> int:
        """Which matrix of several is drawn: the first with padding, else the first whose corner hides anything."""
        matrices = self.facts.cells or ()
        if self.facts.blocks is not None or all(len(matrix) == 1 for matrix in matrices):
            return 0
        padded = (number for number, rows in enumerate(matrices) if any("p" in row or "b" in row for row in rows))
        hiding = (
            number
            for number, rows in enumerate(matrices)
            if any(cell != VISIBLE for row in rows[:MOST] for cell in row[:MOST])
        )
        return next(padded, next(hiding, 0))

    @property
    def letters(self) -> list[tuple[str, str]]:
        """What its cells mean, where they hide for more than one reason."""
        seen = {letter for row in self.rows for letter in row}
        return list_letters(seen) if len(seen - {VISIBLE}) > 1 else []

    @property
    def remark(self) -> str:
        """What it hides, how much, and how much of it is drawn."""
        columns = len(self.rows[0]) if self.rows else 0
        leading = self.shape.words[:-2]
        shown = describe_shown(
            Shown(self.facts, len(self.rows), columns, self.is_corner, leading, self.drawn, self.start)
        )
        return f"{describe_hidden(self.facts)}{'; ' if shown else ''}{shown}"


def draw_masks(canvas: Canvas, cards: Sequence[MaskCard], left: float, top: float, width: float) -> float:
    """The masks side by side, or one under the other where that is too wide; gives the height left below them."""
    x, y, low = left, top, top
    for card in cards:
        rows = card.rows
        columns = max((len(row) for row in rows), default=0)
        cell = max(SMALLEST, min(LARGEST, 168.0 / max(columns, len(rows), 1)))
        title = (Run(f"{card.title} ", OP, "text", "bold"), *digits(card.shape, LABEL))
        lines = [words(line, NOTE, "quiet") for line in wrap(card.remark, NOTE, min(width, 250.0), canvas.measure)]
        head = canvas.note(left, 0, (title, *lines))
        canvas.boxes.pop()
        named = max((MEANT + canvas.text_width(text, NOTE) for _, text in card.letters), default=0.0)
        wide = max(head.width, cell * columns, named)
        if x > left and x + wide > left + width:
            x, y = left, low - 14
        note = canvas.note(x, y, (title, *lines), tooltip=card.tooltip)
        bottom = note.bottom - 4
        if rows:
            grid = Cells(card.id, x + 2, bottom, cell, rows, "mask", card.tooltip, card.steps)
            canvas.cells.append(grid)
            bottom -= grid.height + 4
        for letter, text in card.letters:
            canvas.cells.append(Cells(f"{card.id}_{letter}", x + 2, bottom, 12, ((letter,),), "legend"))
            bottom = canvas.note(x + MEANT, bottom, (words(text, NOTE),)).bottom - 4
        x, low = x + wide + AISLE, min(low, bottom)
    return low
