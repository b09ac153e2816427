"""A chart put on the canvas: rows from a floor up, lanes across a width, every node a box that knows its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from re import split

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Chart, Edge, Node, Place
from xray.story.layout import Box, Line, Measure, Run, line_width
from xray.story.shapes import ShapeText, digits, read_shape, symbols, symbols_in_two
from xray.story.sheet.routing import Way, count_levels, join, passes_arrows, room_for
from xray.story.sheet.tooltip import describe
from xray.story.type_sizes import DIGIT, FOUR_LINES, LINE, NOTE, OP, SYMBOL, THREE_LINES, TWO_LINES
from xray.story.wording import fit_text, wrap, wrap_words

SMALLEST_BESIDE, DERIVED = 13, "derived"
CONDITION = "op_normalisation"
"""The colour of what scales, shifts and gates from beside a stream."""
GHOST, RIBBON_ROW, RIBBON_ROOM, SIGN, BARS = 22.0, 36.0, 26.0, 22.0, 44.0
"""How high a node without a shape is, what is left free for a ribbon below what it feeds, how large a sign is."""
FRAME = 4.0
"""How much higher a node of three lines is that has a bright frame."""
SUMS = ("add", "closed")
"""The boxes of a panel that the stream is led to past its branches; where there is none of these, its head is."""
STREAM, OFF_STREAM = 18.7, 4.0
"""So far left of a panel's boxes the stream comes by, and so far lines between these keep off it."""
PLAIN, FRAMED = 6.0, 14.0
"""How much of a box's width its sizes leave free, without an outline and with a thick one."""


@dataclass(frozen=True)
class Look:
    """In what a tower is painted, and of which passes it tells: the steps of the first that has them, sizes as in all.

    A narrow look is that of a second phase beside the first: it is painted in the colour of its phase.
    """

    own: str
    memory: str
    passes: tuple[Pass, ...]
    role: str = "forward"
    is_narrow: bool = False

    def surface(self, node: Node) -> str:
        """The surface of the theme that a node stands on."""
        own = self.role if self.is_narrow else self.own
        surfaces = {"own": own, "mask": "mask", "memory": self.memory, "phase": self.phase, "ghost": "card"}
        return surfaces.get(node.surface, CONDITION)

    @property
    def phase(self) -> str:
        """The colour of what is of the phase and of no tower: its path on the page, a loss, a chosen word."""
        return self.role if self.role in ("training", "inference") else self.own

    @property
    def outside(self) -> str:
        """The role of a line on the page: that of its phase where that has a colour for lines there."""
        return self.phase if self.phase != self.own else "leader"

    @property
    def line(self) -> str:
        """The role of a line inside the frames."""
        return f"{self.role}_on_panel" if self.is_narrow else self.own

    @property
    def is_dashed(self) -> bool:
        """Whether its path is dashed: that of inference is, so that phases can be told apart without colour."""
        return self.role == "inference"

    def shape(self, step: Step, record: TensorRecord) -> ShapeText:
        """A shape as it is in all passes: a size that differs from pass to pass is told as a range."""
        home = next((one for one in self.passes if one.by_id.get(step.id) is step), self.passes[0])
        found = [(home.number, record)]
        sides = ((side, place, one) for side in ("outputs", "inputs") for place, one in enumerate(getattr(step, side)))
        side, place = next(((side, place) for side, place, one in sides if one.shape == record.shape), ("", 0))
        for one in self.passes if side else ():
            other = one.by_id.get(step.id) if one is not home else None
            records = getattr(other, side) if other is not None else ()
            if len(records) > place and len(records[place].shape) == len(record.shape):
                found.append((one.number, records[place]))
        return read_shape(found)

    def alike(self, one: Node, other: Node) -> bool:
        """Whether two nodes print the same shape."""
        shapes = [None if node.record is None else self.shape(node.steps[0], node.record) for node in (one, other)]
        return shapes[0] is not None and shapes[1] is not None and shapes[0].sizes == shapes[1].sizes

    def tell(self, steps: Sequence[Step]) -> str:
        """A tooltip for some steps, each with its turns."""
        return "\n".join(
            describe([(one, one.by_id[step.id]) for one in self.passes if step.id in one.by_id]) for step in steps
        )

    def identity(self, step: Step) -> str:
        """The id that a step has on the sheet: that of the first pass which takes it."""
        return f"{next((one for one in self.passes if step.id in one.by_id), self.passes[0]).key}/{step.id}"


@dataclass(frozen=True)
class Placed:
    """A chart on the canvas: its boxes by key, how high it reaches, its lines, and where these go at the leftmost."""

    boxes: Mapping[str, Box]
    top: float
    ways: tuple[Way, ...] = ()
    leftmost: float = -inf


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


def rows_of(
    canvas: Canvas, chart: Chart, width: float, look: Look, *, on_page: bool = False
) -> list[tuple[float, float]]:
    """The height of each row, that of its highest node, and the room that it needs above it."""
    heights = [
        max((row_height(canvas, node, width, look) for node in chart.in_row(row)), default=0.0)
        for row in range(chart.rows)
    ]
    rooms = list(rooms_of(chart, width, on_page=on_page))
    for row in {node.row - 1 for node in chart.nodes if node.joins is not None and node.row}:
        rooms[row] = max(rooms[row], RIBBON_ROOM)
    return list(zip(heights, rooms, strict=True))


def rooms_of(chart: Chart, width: float, *, on_page: bool) -> tuple[float, ...]:
    """How much room each row needs above it at least for the lines that run level there."""
    nodes = tuple((node.key, node.row, node.place) for node in chart.nodes)
    return plan_rooms(nodes, tuple(in_order(chart)), width, find_leftmost(0.0, on_page=on_page))


@lru_cache(maxsize=1024)
def plan_rooms(
    nodes: tuple[tuple[str, int, Place], ...], edges: tuple[Edge, ...], width: float, leftmost: float
) -> tuple[float, ...]:
    """The same, of nodes of which it is known where in which row each stands."""
    boxes = {key: Box(key, x * width, row * 100.0, share * width, 50.0, (), "") for key, row, (x, share) in nodes}
    ways = list[Way]()
    canvas, others = Canvas(lambda *_: 0.0, is_trial=True), list(boxes.values())
    for edge in edges:
        lower, upper = boxes[edge.source], boxes[edge.target]
        if lower.top < upper.bottom:
            join(canvas, lower, upper, others, "", fan=edge.fan, drawn=ways, leftmost=leftmost)
    rows = 1 + max((row for _, row, _ in nodes), default=-1)
    gaps = [(row * 100.0 + 25, row * 100.0 + 75) for row in range(rows)]
    return tuple(room_for(count_levels(ways, *gap), under_heads=passes_arrows(ways, *gap)) for gap in gaps)


def find_leftmost(left: float, *, on_page: bool) -> float:
    """Where lines of a chart go around its boxes at the leftmost: in a frame right of the stream that comes by."""
    return -inf if on_page else left - STREAM + OFF_STREAM


def in_order(chart: Chart) -> list[Edge]:
    """The ways from one row to a higher one, those to the next row first: longer ones go around these."""
    rows = {node.key: node.row for node in chart.nodes}
    edges = [edge for edge in chart.edges if edge.source in rows and edge.target in rows]
    return sorted(edges, key=lambda edge: rows[edge.target] - rows[edge.source])


def place_chart(
    canvas: Canvas,
    chart: Chart,
    left: float,
    width: float,
    floor: float,
    gap: float,
    look: Look,
    station: int | None = None,
    rows: Sequence[tuple[float, float]] | None = None,
    *,
    on_page: bool = False,
) -> Placed:
    """The chart's boxes and the lines between them, from a floor up.

    `rows` are how high each row is, and how much room it needs above it, where another chart stands beside it; lines on
    the page itself, outside of a frame, are thick and take the colour of their phase.
    """
    boxes: dict[str, Box] = {}
    y = top = floor
    for row, (height, room) in enumerate(rows or rows_of(canvas, chart, width, look, on_page=on_page)):
        y += RIBBON_ROW if any(node.key in chart.memory for node in chart.in_row(row)) else 0
        for node in chart.in_row(row):
            boxes[node.key] = canvas.add(make_box(canvas, node, left, width, y + height / 2, height, look, station))
            if node.form == "bars":
                draw_bars(canvas, node, boxes[node.key], look)
        top = y + height
        y = top + max(gap, room)
    every, drawn, leftmost = list(boxes.values()), list[Way](), find_leftmost(left, on_page=on_page)
    for edge in in_order(chart) if not canvas.is_trial else ():
        lower, upper = boxes[edge.source], boxes[edge.target]
        surface = chart.node(edge.source).surface
        of_memory = not look.is_narrow and surface == "memory"
        line = look.outside if on_page else look.memory if of_memory else look.line
        line = "leader" if surface == "condition" else line
        thick = 2 if on_page and look.phase != look.own else 1.6 if look.is_narrow else 1.2
        dashed = look.is_dashed and (on_page or look.is_narrow)
        if lower.top <= upper.bottom:
            is_passed = not on_page and edge.target in (*SUMS, *chart.heads)  # the stream comes by at the left
            sides = (1,) if is_passed else (-1, 1)
            join(
                canvas,
                lower,
                upper,
                every,
                line,
                fan=edge.fan,
                width=thick,
                dashed=dashed,
                drawn=drawn,
                sides=sides,
                leftmost=leftmost,
            )
        else:
            canvas.line((lower.left, lower.y), (upper.right, upper.y), role=line, width=1.6)
    return Placed(boxes, top, tuple(drawn), leftmost)


def make_box(
    canvas: Canvas, node: Node, left: float, width: float, y: float, height: float, look: Look, station: int | None
) -> Box:
    """A node as a box: its name, its shape, the words of its axes."""
    own = SIGN if node.form == "sign" else node.place[1] * width
    if node.form == "bars":
        return Box(f"part_{len(canvas.boxes)}", left + node.place[0] * width, y, own, BARS, (), "card", filled=False)
    step = node.steps[0] if node.steps else None
    return Box(
        id=look.identity(step) if step is not None else f"part_{len(canvas.boxes)}",
        x=left + node.place[0] * width,
        y=y,
        width=own,
        height=SIGN if node.form == "sign" else min(height, GHOST) if node.record is None and not node.told else height,
        lines=() if canvas.is_trial else write_lines(canvas, node, own, height, look),
        on="failure" if step is not None and step.error is not None else look.surface(node),
        outline=node.outline or (look.phase if look.is_narrow and node.surface == "mask" else None),
        outline_width=2.4 if node.outline == "boundary" else 1.4 if node.outline or look.is_narrow else 1.0,
        shape="circle" if node.form == "sign" else "round",
        kind=f"step {look.role} {look.own}" if step is not None else "part",
        tooltip="" if canvas.is_trial else look.tell(node.steps),
        steps=() if canvas.is_trial else tuple(look.identity(one) for one in node.steps),
        record=node.record,
        station=station,
    )


def draw_bars(canvas: Canvas, node: Node, box: Box, look: Look) -> None:
    """A bar for each number from the foot of a box up, and above them what they count."""
    text = fit_text(node.label, NOTE, box.width, canvas.measure)
    surface = f"{look.own}_panel_two"
    canvas.note(box.x, box.top, (words(text, NOTE, "quiet"),), surface, "center")
    step, most = box.width / len(node.bars), max(max(node.bars), 1)
    for number, count in enumerate(node.bars):
        x = box.left + number * step
        high = max(1.5, (BARS - 18) * count / most)
        canvas.panel(x, box.bottom, x + step - min(3.0, step / 4), box.bottom + high, look.own, 1)


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


def draw_station(canvas: Canvas, x: float, y: float, number: int, radius: float = 15, kind: str = "station") -> None:
    """A pink circle with the number of a station."""
    size = round(radius * 1.15) if radius > NOTE else NOTE
    canvas.add(
        Box(
            f"{kind}_{number}_{len(canvas.boxes)}",
            x,
            y,
            2 * radius,
            2 * radius,
            (words(str(number), size, "text", "bold"),),
            "station",
            shape="circle",
            outline_width=radius / 10,
            kind=kind,
            tooltip=f"station {number}",
        )
    )
