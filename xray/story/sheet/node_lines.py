"""The lines in a node: an operation's name, the shape that comes out of it, and the axis words of that shape."""

from xray.story.canvas import Canvas, words
from xray.story.layout import Line, Run, line_width
from xray.story.shapes import ShapeText, digits, symbols
from xray.story.type_sizes import DIGIT, OP, SYMBOL
from xray.story.wording import fit_text

SMALLEST_BESIDE = 13


def op_line(name: str, extra: str = "", size: int = OP) -> Line:
    """The name of an operation, `^T` in it raised, with a quieter remark after it."""
    runs: list[Run] = []
    for place, piece in enumerate(name.split("^")):
        if place:
            runs.append(Run(piece[0], size, "text", "semibold", "sup"))
            piece = piece[1:]
        if piece:
            runs.append(Run(piece, size, "text", "semibold"))
    if extra:
        runs.append(Run(f"  {extra}", SYMBOL, "quiet"))
    return tuple(runs)


def fit_op(canvas: Canvas, name: str, extra: str, width: float) -> Line:
    """The label with its remark where both fit, else without, else shortened."""
    for line in (op_line(name, extra), op_line(name), op_line(name, size=SYMBOL)):
        if line_width(line, canvas.measure) <= width:
            return line
    return words(fit_text(name.replace("^", ""), SYMBOL, width, canvas.measure, "semibold"), SYMBOL, "text", "semibold")


def fit_beside(canvas: Canvas, shape: ShapeText, width: float) -> Line | None:
    """The sizes with the axis words beside them, in type not much smaller than usual; None where they do not fit."""
    for size in range(DIGIT, SMALLEST_BESIDE - 1, -1):
        line = (*digits(shape, size), Run("  ", SYMBOL), *symbols(shape, SYMBOL))
        if line_width(line, canvas.measure) <= width:
            return line
    return None


def fit_digits(canvas: Canvas, shape: ShapeText, width: float, largest: int = DIGIT) -> Line:
    """The sizes in the largest type that fits."""
    for size in range(largest, SYMBOL, -1):
        line = digits(shape, size)
        if line_width(line, canvas.measure) <= width:
            return line
    return digits(shape, SYMBOL)
