"""What stands above the encoder, or beside a model that has one side only: title, legend, formulas, pictures, marks."""

from collections.abc import Sequence

from xray.story.canvas import Canvas
from xray.story.column import Column
from xray.story.compare.marks import Marks
from xray.story.compare.outlines import card_blocks, draw_marks_card, fit_blocks
from xray.story.formulas import draw_formulas
from xray.story.gallery import draw_gallery
from xray.story.heading import draw_legend, draw_reading, draw_title, reading_width
from xray.story.journey import Tale
from xray.story.layout import Line
from xray.story.plan import MARGIN, Plan
from xray.story.tower import draw_towers, need_towers

FORMULAS_HEIGHT = 78.0


def upper_right(plan: Plan) -> tuple[float, float]:
    """Where the room above the decoder begins, and how wide it is."""
    left = plan.stairwell + 40
    return left, plan.width - MARGIN - 8 - left


def draw_top(
    canvas: Canvas,
    plan: Plan,
    tale: Tale,
    columns: Sequence[Column],
    crown: float,
    marks: Marks | None,
    gradients: tuple[Line, ...],
) -> int:
    """Everything above encoder and decoder; gives how many marks are listed.

    Top left the title, then reading order, legend, layers that stand apart, formulas and attention pictures; what there
    is no room for is left out, the last first. Marks are listed top right where the page could grow for them.
    """
    left, width = plan.info
    right = upper_right(plan)
    top, bottom, ceiling = plan.height - MARGIN, crown + 10, list(plan.out.values())[-1].top + 24
    y = draw_title(canvas, tale, left, left + width, top, gradients) - 14
    blocks = None
    if marks is not None:
        blocks = fit_blocks(canvas, marks, right[1], top - ceiling)
        if blocks is not None:
            draw_marks_card(canvas, marks, blocks, right[0], top, right[1])
            ceiling = top
        else:
            blocks = card_blocks(canvas, marks, width, 2)
            y = draw_marks_card(canvas, marks, blocks, left, y, width) - 14
    reading = min(width * 0.5, reading_width(canvas, tale))
    low = draw_reading(canvas, tale, left, y, reading)
    legend = draw_legend(canvas, tale, left + reading + 18, y, width - reading - 18, marks)
    y = min(low, legend) - 8
    if need_towers(columns):
        y = draw_towers(canvas, columns, left, y, width, bottom) - 10
    if y - FORMULAS_HEIGHT > bottom:
        y = draw_formulas(canvas, tale, left, y, width)
    if top - ceiling > y - bottom:
        (left, width), y, bottom = right, top + 14, ceiling
    draw_gallery(canvas, tale, left, y - 14, width, bottom)
    return sum(number > 0 for number, _ in blocks or ())
