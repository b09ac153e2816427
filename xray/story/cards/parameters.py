"""Where the parameters are, as bars."""

from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told, draw_card
from xray.story.type_sizes import NOTE
from xray.story.wording import fit_text


def draw_parameters(told: Told, canvas: Canvas, top: float) -> float:
    """Where the parameters are, as bars."""
    if not told.shares:
        return top
    widest = max(count for _, _, count in told.shares)
    room = max(canvas.text_width(name, NOTE) for name, _, _ in told.shares)
    numbers = max(canvas.text_width(f"{count:,}", NOTE) for _, _, count in told.shares)

    def draw(y: float) -> float:
        left = told.left + 14 + min(room, told.width * 0.42) + 12
        right = told.left + told.width - 14 - numbers - 10
        for name, role, count in told.shares:
            text = fit_text(name, NOTE, told.width * 0.42, canvas.measure)
            canvas.note(told.left + 14, y, (words(text, NOTE),), "card")
            end = left + max((right - left) * count / widest, 3)
            canvas.panel(left, y - 11, end, y - 2, role, 3)
            canvas.note(told.left + told.width - 14, y, (words(f"{count:,}", NOTE),), "card", "right")
            y -= 17
        return y

    return draw_card(told, canvas, top, "WHERE THE PARAMETERS ARE", draw)
