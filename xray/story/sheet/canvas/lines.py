"""What a box says, in lines that fit it: its name, its shape with the words of its axes, and what is told beside."""

from dataclasses import replace
from functools import lru_cache
from re import split

from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Node
from xray.story.layout import Line, Measure, Run, line_width
from xray.story.shapes import ShapeText, digits, symbols, symbols_in_two
from xray.story.sheet.canvas.look import Look
from xray.story.type_sizes import DIGIT, FOUR_LINES, LINE, NOTE, OP, SYMBOL, THREE_LINES, TWO_LINES
from xray.story.wording import fit_text, wrap, wrap_words

SMALLEST_BESIDE, DERIVED = 13, "derived"
GHOST, SIGN, BARS = 22.0, 22.0, 44.0
"""How high a node without a shape is, how large a sign is, and how high bars are."""
PLAIN, FRAMED = 6.0, 14.0
"""How much of a box's width its sizes leave free, without an outline and with a thick one."""
FRAME = 4.0
"""How much higher a node of three lines is that has a bright frame."""


def row_height(canvas: Canvas, node: Node, width: float, look: Look) -> float:
    """How high a node has to be for what it says."""
    if node.form != "box":
        return SIGN if node.form == "sign" else BARS
    own = node.place[1] * width
    more = LINE * marks_below(canvas, node, own)
    if node.told:
        if node.record is not None and node.steps:
            more += LINE * len(tell_last(canvas, node, own, look.shape(node.steps[0], node.record), look))
        is_broken = node.record is not None and node.steps and not node.value
        more += LINE * (len(break_label(canvas, node, own)) - 1) if is_broken else 0.0
        return TWO_LINES + (24 if node.value else 4) + LINE * len(wrap_told(canvas, node, own)) + more
    if node.record is None or not node.steps:
        return GHOST
    shape = look.shape(node.steps[0], node.record)
    more += LINE * (len(break_label(canvas, node, own)) - 1)
    more += LINE * len(tell_last(canvas, node, own, shape, look))
    if look.is_narrow or not shape.is_named or fit_beside(canvas.measure, shape, room_in(node, own)) is not None:
        return TWO_LINES + more
    fits = canvas.text_width(shape.symbols, SYMBOL) <= room_in(node, own)
    more += FRAME if node.outline else 0.0
    return (FOUR_LINES if len(shape.axes) > 2 and not fits else THREE_LINES) + more


def write_lines(canvas: Canvas, node: Node, own: float, height: float, look: Look) -> tuple[Line, ...]:
    """What a node says."""
    if node.form == "sign":
        return (words(node.label, 16, "text", "bold"),)
    step = node.steps[0] if node.steps else None
    derived = DERIVED if node.is_derived else ""
    beside = "" if node.beside is None or step is None else look.shape(step, node.beside).plain
    read = " ".join(part for part in (beside, "" if look.is_narrow else node.extra) if part)
    failed = "failed" if step is not None and step.error is not None else ""
    extra = failed or ", ".join(part for part in (derived, read) if part)
    below = ""
    if line_width(op_line(node.label, extra, SYMBOL), canvas.measure) > own - 8:
        extra, below = derived or failed or beside, "" if look.is_narrow else node.extra
    name = node.label
    if failed and line_width(op_line(name, failed, SYMBOL), canvas.measure) > own - 8:  # that has to be said
        room = own - 8 - line_width(op_line("", failed, SYMBOL), canvas.measure)
        name = fit_text(name.replace("^", ""), SYMBOL, room, canvas.measure, "semibold")
    label: tuple[Line, ...] = (fit_op(canvas, name, extra, own - 8),)
    remarks = tuple(words(line, NOTE, "quiet") for line in wrap_told(canvas, node, own))
    if node.value:
        return (*label, words(node.value, DIGIT + 6 if node.told else DIGIT, "text", "bold"), *remarks)
    if node.record is None or step is None:
        return (*label, *remarks)
    pieces = break_label(canvas, node, own)
    if len(pieces) > 1 and not failed:
        label = tuple(op_line(piece, size=SYMBOL) for piece in pieces)
    if marks_below(canvas, node, own) and not failed:
        label = (*label, words(DERIVED, SYMBOL, "quiet"))
    shape = look.shape(step, node.record)
    if look.is_narrow:
        return (*label, fit_digits(canvas.measure, shape, own - 3), *remarks)
    last = tell_last(canvas, node, own, shape, look)
    room = room_in(node, own)
    left = 0.0 if remarks else height - LINE * (len(label) - 1 + len(last))
    below = "" if last else below
    return (*label, *add_below(canvas, spell_shape(canvas, shape, room, left), below, own - 8), *last, *remarks)


def room_in(node: Node, own: float) -> float:
    """How much room a box has for its sizes: less where it has a thick outline."""
    return own - (FRAMED if node.outline == "boundary" else PLAIN)


def tell_last(canvas: Canvas, node: Node, own: float, shape: ShapeText, look: Look) -> tuple[Line, ...]:
    """Lines for what has no room beside the label and none behind the sizes either; none for any other node.

    One, or two where it is wider than the node: not told is it only where a word of it is.
    """
    if look.is_narrow or not node.extra or node.value:
        return ()
    extra = ", ".join(part for part in (DERIVED if node.is_derived else "", node.extra) if part)
    fits_beside = line_width(op_line(node.label, extra, SYMBOL), canvas.measure) <= own - 8
    pieces = wrap_words(node.extra.split(), SYMBOL, own - 8, canvas.measure, 2)
    if fits_beside or " ".join(pieces) != node.extra:
        return ()
    room = room_in(node, own)
    spelled = fit_beside(canvas.measure, shape, room) if shape.is_named else fit_digits(canvas.measure, shape, room)
    if spelled and len(add_below(canvas, [spelled], node.extra, own - 8)[0]) > len(spelled):
        return ()
    return tuple(words(piece, SYMBOL, "quiet") for piece in pieces)


def add_below(canvas: Canvas, lines: list[Line], extra: str, width: float) -> list[Line]:
    """The lines of a shape, behind the sizes of one line what has no room beside the label, if it has some there."""
    apart = "  ·  " if lines[0][-1].ink == "quiet" else "  "  # axis words look like what follows them
    line = (*lines[0], Run(f"{apart}{extra}", SYMBOL, "quiet"))
    return [line] if extra and len(lines) == 1 and line_width(line, canvas.measure) <= width else lines


def break_label(canvas: Canvas, node: Node, own: float) -> tuple[str, ...]:
    """The label of a node, on up to three lines where it is too wide for one in the smallest type.

    A letter at its end stands with the word before, what it is divided by behind the sign, where both have room there.
    """
    if line_width(op_line(node.label, size=SYMBOL), canvas.measure) <= own - 8 or " " not in node.label:
        return (node.label,)
    together, apart = (
        wrap_words(pieces, SYMBOL, own - 8, canvas.measure, 3, "semibold")
        for pieces in (split(r"(?<!÷) (?=\S)(?!\S$)", node.label), node.label.split())
    )
    return together if len(together) == len(apart) and " ".join(together) == node.label else apart


def marks_below(canvas: Canvas, node: Node, own: float) -> bool:
    """Whether that a node is derived stands on a line of its own, since its label leaves no room for it."""
    return node.is_derived and line_width(op_line(node.label, DERIVED, SYMBOL), canvas.measure) > own - 8


def wrap_told(canvas: Canvas, node: Node, width: float) -> list[str]:
    """What a node has to say, broken into lines."""
    return [line for text in node.told for line in wrap(text, NOTE, width - 12, canvas.measure)]


def spell_shape(canvas: Canvas, shape: ShapeText, width: float, height: float) -> list[Line]:
    """Digits, with the words of the axes beside or below them as there is room."""
    number = fit_digits(canvas.measure, shape, width)
    if not shape.is_named:
        return [number]
    beside = fit_beside(canvas.measure, shape, width)
    if beside is not None:
        return [beside]
    if height >= THREE_LINES and canvas.text_width(shape.symbols, SYMBOL) <= width:
        return [number, symbols(shape, SYMBOL)]
    if height >= FOUR_LINES:
        upper, lower = symbols_in_two(shape, SYMBOL)
        return [number, *(fit_words(canvas, line, width) for line in (upper, lower))]
    return [number]


def fit_words(canvas: Canvas, line: Line, width: float) -> Line:
    """A line of one run, shortened where it is too wide."""
    run = line[0]
    return (replace(run, text=fit_text(run.text, run.size, width, canvas.measure)),)


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
    """The label with its remark where both fit, be it in smaller type, else without, else shortened."""
    for line in (op_line(name, extra), op_line(name, extra, SYMBOL), op_line(name), op_line(name, size=SYMBOL)):
        if line_width(line, canvas.measure) <= width:
            return line
    return words(fit_text(name.replace("^", ""), SYMBOL, width, canvas.measure, "semibold"), SYMBOL, "text", "semibold")


@lru_cache(maxsize=4096)
def fit_beside(measure: Measure, shape: ShapeText, width: float) -> Line | None:
    """The sizes with the axis words beside them, in type not much smaller than usual; None where they do not fit."""
    for size in range(DIGIT, SMALLEST_BESIDE - 1, -1):
        line = (*digits(shape, size), Run("  ", SYMBOL), *symbols(shape, SYMBOL))
        if line_width(line, measure) <= width:
            return line
    return None


@lru_cache(maxsize=4096)
def fit_digits(measure: Measure, shape: ShapeText, width: float, largest: int = DIGIT) -> Line:
    """The sizes in the largest type that fits."""
    for size in range(largest, SYMBOL, -1):
        line = digits(shape, size)
        if line_width(line, measure) <= width:
            return line
    return digits(shape, SYMBOL)
