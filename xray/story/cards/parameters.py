"""Where the parameters are, as bars."""

from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told, draw_card
from xray.story.layout import Measure
from xray.story.type_sizes import NOTE
from xray.story.wording import fit_text


def draw_parameters(told: Told, canvas: Canvas, top: float) -> float:
    """Where the parameters are, as bars."""
    if not told.shares:
        return top
    widest = max(count for _, _, count in told.shares)
    most = told.width * 0.5
    shares = [(shorten(name, most, canvas.measure), role, count) for name, role, count in told.shares]
    room = max(canvas.text_width(name, NOTE) for name, _, _ in shares)
    numbers = max(canvas.text_width(f"{count:,}", NOTE) for _, _, count in told.shares)

    def draw(y: float) -> float:
        left = told.left + 14 + min(room, most) + 12
        right = told.left + told.width - 14 - numbers - 10
        for name, role, count in shares:
            text = fit_text(name, NOTE, most, canvas.measure)
            canvas.note(told.left + 14, y, (words(text, NOTE),), "card")
            end = left + max((right - left) * count / widest, 3)
            canvas.panel(left, y - 11, end, y - 2, role, 3)
            canvas.note(told.left + told.width - 14, y, (words(f"{count:,}", NOTE),), "card", "right")
            y -= 17
        return y

    return draw_card(told, canvas, top, "WHERE THE PARAMETERS ARE", draw)


def shorten(name: str, width: float, measure: Measure) -> str:
    """A name that ends with a path, with an ellipsis for the beginning of this where it is too wide."""
    kind, colon, path = name.partition(": ")
    some, space, path = path.rpartition(" ")
    kind += f"{colon}{some}{space}"
    while "." in path.removesuffix(".*") and measure(f"{kind}{path}", NOTE, "regular") > width:
        path = f"…{path.partition('.')[2]}"
    return f"{kind}{path}"
