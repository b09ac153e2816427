"""Nodes of the poster: an operation's name, the shape that comes out of it, and the axis words of that shape."""

from xray.story.canvas import Canvas, words
from xray.story.journey import Journey
from xray.story.layout import Box, Line, Run, line_width
from xray.story.plan import DIGIT, OP, SYMBOL, Row
from xray.story.shapes import ShapeText, digits, read_shape, symbols, symbols_in_two
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


def draw_node(
    canvas: Canvas,
    journey: Journey,
    path: str,
    row: Row,
    x: float,
    width: float,
    name: str,
    *,
    surface: str,
    extra: str = "",
    also: tuple[str, ...] = (),
    form: str = "wide",
    outline: str | None = None,
    shape: ShapeText | None = None,
) -> Box | None:
    """One step as a node. Forms: "wide" has the axis words beside the digits, "tall" under them, "brief" has none.

    `also` are other steps that the same node stands for. Nothing is drawn for a step that was not recorded.
    """
    shape = shape or journey.output(path)
    if shape is None:
        return draw_failed(canvas, journey, path, row, x, width, name)
    lines: tuple[Line, ...]
    label = fit_op(canvas, name, extra, width - 8)
    number = fit_digits(canvas, shape, width - 6)
    if not shape.is_named:
        lines = (label, number)
    elif form == "wide":
        lines = (label, fit_beside(canvas, shape, width - 6) or number)
    elif form == "tall" and len(shape.axes) > 2:
        lines = (label, number, *symbols_in_two(shape, SYMBOL))
    elif form == "three":
        lines = (label, number, symbols(shape, SYMBOL))
    else:
        lines = (label, number)
    box = Box(
        id=journey.identity(path),
        x=x,
        y=row.y,
        width=width,
        height=row.height,
        lines=lines,
        on=surface,
        outline=outline,
        outline_width=2.4 if outline in ("boundary", "ribbon") else 1.4 if outline else 1.0,
        kind=f"step {journey.phase} {journey.side}",
        tooltip=journey.tell(path, *also),
        steps=journey.identities(path, *also),
    )
    return canvas.add(box)


def draw_failed(canvas: Canvas, journey: Journey, path: str, row: Row, x: float, width: float, name: str) -> Box | None:
    """A step that raised, with the shapes that it was given; None for one that was not recorded."""
    step = journey.step(path)
    if step is None or step.error is None:
        return None
    given = [fit_digits(canvas, read_shape([(0, record)]), width - 6) for record in step.inputs[:1]]
    return canvas.add(
        Box(
            id=journey.identity(path),
            x=x,
            y=row.y,
            width=width,
            height=row.height,
            lines=(fit_op(canvas, name, "failed", width - 8), *given),
            on="failure",
            kind=f"step {journey.phase} {journey.side}",
            tooltip=journey.tell(path),
            steps=journey.identities(path),
        )
    )


def cached_shape(journey: Journey, path: str) -> ShapeText | None:
    """The shape of the keys that are really read, where a cache made them longer than the newest ones; else None."""
    newest, read = journey.output(f"{path}.split_key"), journey.input(f"{path}.transpose_key", "key")
    return read if read is not None and newest is not None and read.sizes != newest.sizes else None


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


def fit_digits(canvas: Canvas, shape: ShapeText, width: float) -> Line:
    """The sizes in the largest type that fits."""
    for size in range(DIGIT, SYMBOL, -1):
        line = digits(shape, size)
        if line_width(line, canvas.measure) <= width:
            return line
    return digits(shape, SYMBOL)
