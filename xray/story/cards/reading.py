"""The stations, in the order in which data passes them, and what happens at each."""

from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told
from xray.story.sheet.canvas.placing import draw_station
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import wrap


def draw_reading(told: Told, canvas: Canvas, top: float) -> float:
    """The stations, in the order in which data passes them."""
    canvas.note(told.left, top, (words("READ IT FROM THE BOTTOM UP", LABEL, "accent:station", "bold"),))
    y = top - 28
    for number, text in told.stations:
        lines = tuple(words(line, NOTE) for line in wrap(text, NOTE, told.width - 34, canvas.measure, 3))
        more = 6 * (len(lines) - 1)  # a line more makes room above the station as below it
        y -= more
        draw_station(canvas, told.left + 9, y, number, 9, "reading")
        canvas.note(told.left + 26, y + len(lines) * NOTE * 0.56, lines)
        y -= 19 + more
    return y + 8
