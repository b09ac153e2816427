"""What stands above the first tower of a pair: title, reading order, colours, formulas, and pictures of attention."""

from collections.abc import Sequence
from dataclasses import replace

from xray.story.canvas import Canvas, words
from xray.story.cards.cards import draw_sentences
from xray.story.cards.formulas import draw_formulas
from xray.story.cards.legend import draw_legend
from xray.story.cards.parameters import draw_parameters
from xray.story.cards.reading import draw_reading
from xray.story.cards.title import draw_name, list_credits, list_size_lines
from xray.story.cards.told import Told
from xray.story.compare.marks import Marks
from xray.story.compare.outlines import card_blocks, draw_marks_card
from xray.story.layout import Line
from xray.story.regions.heat_maps import Picture, draw_heat_maps
from xray.story.type_sizes import LABEL
from xray.story.wording import wrap_words

BESIDE, AIR = 176.0, 12.0
"""What is kept free right below the title for the remark on back-propagation, and the air between cards."""

PICTURES = 150.0
"""The least height in which pictures can be read."""


def draw_head(canvas: Canvas, told: Told, remarks: Sequence[str], gradients: tuple[Line, ...], top: float) -> float:
    """Title, credit, sizes and remarks, what was sent back at the right; gives the height that is left below."""
    y = draw_name(told, canvas, top)
    if gradients:
        canvas.note(told.left + told.width + 12, y, gradients, align="right")
    lines = list_credits(told, canvas.measure, told.width - BESIDE)
    y = canvas.note(told.left, y, lines).bottom - 8
    for line in list_size_lines(told, canvas):
        y = canvas.note(told.left, y, (line,)).bottom - 2
    if remarks:
        wrapped = wrap_words(" ".join(remarks).split(" "), LABEL - 1, told.width - 8, canvas.measure, 3, "semibold")
        lines = tuple(words(line, LABEL - 1, "accent:warning", "semibold") for line in wrapped)
        y = canvas.note(told.left, y - 4, lines).bottom
    return y - AIR


def draw_middle(canvas: Canvas, told: Told, top: float) -> float:
    """Reading order and what the model does its own way, beside colours and formulas; gives the height left below."""
    half = told.width * 0.48
    left, right = replace(told, width=half - 8), replace(told, left=told.left + half, width=told.width - half)
    lows = []
    for one, parts in ((left, (draw_reading, draw_sentences)), (right, (draw_legend, draw_formulas))):
        y = top
        for draw in parts:
            low = draw(one, canvas, y)
            y = low - AIR if low < y else y
        lows.append(y)
    return min(lows)


def draw_upper_left(
    canvas: Canvas,
    told: Told,
    remarks: Sequence[str],
    gradients: tuple[Line, ...],
    pictures: Sequence[Picture],
    top: float,
    bottom: float,
    marks: Marks | None,
) -> int:
    """Everything above the first tower, what there is no room for left out; gives how many marks are listed."""
    y = draw_head(canvas, told, remarks, gradients, top)
    blocks = card_blocks(canvas, marks, told.width) if marks is not None else []
    if marks is not None:
        y = draw_marks_card(canvas, marks, blocks, told.left, y, told.width) - AIR
    y = draw_middle(canvas, told, y)
    share = -draw_parameters(told, Canvas(canvas.measure), 0.0)
    if y - bottom - share - AIR > PICTURES:
        y = draw_parameters(told, canvas, y) - AIR
    draw_heat_maps(canvas, pictures, told.left, y, told.width, bottom)
    return sum(number > 0 for number, _ in blocks)
