"""The steps of a pass as tables, one table for each station, in as many columns as the width allows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.renderers.table.failures import list_failure
from xray.renderers.table.words import Words, flow
from xray.story.facts.exchanges import read_exchange
from xray.story.facts.mask_names import name_mask
from xray.story.facts.outline import Row, Section
from xray.story.wording import spell_share
from xray.text import say_short

SHAPES_WIDTH = 33
"""Room for `batch × heads × tgt_len × src_len`, and for two shapes, an arrow and the shape that they make."""
NAME_WIDTH = 30
NARROW_NAME = 18
"""A name that needs more is broken where there is no more room."""
MOST_BELOW = 3
MASK_WIDTH = 14
"""Room for `padding+causal`."""
SHARE_WIDTH = 18
"""Room for `padding+causal 54%`."""
WORK_WIDTH = 8
"""Room for `10.2 kB`, and for `1.35 M ?`."""
FACTS_WIDTH = 16
"""Room for `1.35 M, 10.2 kB`."""
LINE_WIDTH = 18
GAP = 2
"""Between two columns; after the step's number half of it is enough."""
MANY = 6
"""More outputs than this are counted by shape: a backward pass returns one gradient for each parameter."""


@dataclass(frozen=True)
class Column:
    """One column of a step table: its heading, how many cells it has, and on which side its text stands."""

    heading: str
    width: int
    right: bool = False


@dataclass(frozen=True)
class Columns:
    """How the facts of a step are spread over columns; operation and role always stand below the step's name.

    "wide" gives mask, parameters, FLOPs, bytes and the source line a column each; "medium" puts parameters below the
    mask and bytes below the FLOPs; "slim" puts all four into one column; "list" sets everything below the step's name.
    """

    kind: str
    columns: tuple[Column, ...]


def choose_columns(sections: Sequence[Section], words: Words, width: int) -> Columns:
    """The columns for these steps, exactly as wide as asked: the widest arrangement that breaks no shape."""
    rows = [row for section in sections for row in section.rows]
    number = Column("#", longest("#", (str(row.number) for row in rows)), right=True)
    names = (words.clean(text) for row in rows for text in (indented(row), below_name(row)))
    wanted = longest(" operation, role", names)
    name = Column("module\n operation, role", min(wanted, NAME_WIDTH))
    shapes = Column(f"input shapes {words.signs.arrow} output shape\naxis names of the output", SHAPES_WIDTH)
    params = Column("parameters", longest("parameters", (f"{row.step.params:,}" for row in rows)), right=True)
    lines = longest("line", (words.clean(source_line(row)) for row in rows))
    line = Column("line", min(lines, LINE_WIDTH))
    work = [Column(heading, WORK_WIDTH, right=True) for heading in ("FLOPs", "elements", "bytes")]
    columns: tuple[Column, ...] = (
        number,
        name,
        shapes,
        Column("mask, hidden", SHARE_WIDTH),
        params,
        *work,
        line,
    )
    if measure(columns) <= width:
        room = min(width - measure(columns), lines - line.width)
        line = replace(line, width=line.width + room)
        room = min(width - measure(columns) - room, wanted - name.width)
        name = replace(name, width=name.width + room)
        return Columns("wide", widen((number, name, *columns[2:-1], line), 2, width))
    columns = (
        number,
        name,
        shapes,
        Column("mask\n parameters", max(MASK_WIDTH, params.width + 1)),
        Column("FLOPs\nbytes", WORK_WIDTH, right=True),
    )
    if measure(columns) <= width:
        return Columns("medium", widen(columns, 2, width))
    columns = (number, name, shapes, Column("mask, parameters\n FLOPs, bytes", FACTS_WIDTH))
    spare = measure(columns) - width
    if spare <= 0:
        return Columns("slim", widen(columns, 2, width))
    if name.width - spare >= NARROW_NAME:
        return Columns("slim", (number, replace(name, width=name.width - spare), *columns[2:]))
    return Columns("list", widen((number, Column("step", 1)), 1, width))


def longest(heading: str, texts: Iterable[str], most: int = 10**6) -> int:
    """The width of a column that holds its heading and these texts, up to a limit beyond which they are broken."""
    return min(max([Text(heading).cell_len, *(Text(text).cell_len for text in texts)]), most)


def measure(columns: Sequence[Column]) -> int:
    """The width of columns set side by side."""
    return sum(column.width + GAP for column in columns) - GAP - GAP // 2


def widen(columns: tuple[Column, ...], place: int, width: int) -> tuple[Column, ...]:
    """The columns with all remaining room given to one of them."""
    room = max(0, width - measure(columns))
    return (*columns[:place], replace(columns[place], width=columns[place].width + room), *columns[place + 1 :])


def draw_headings(columns: Columns, words: Words) -> Iterator[Text]:
    """The headings of a step table, to stand once above the tables of all stations."""
    headings = [[words.quiet(line) for line in column.heading.split("\n")] for column in columns.columns]
    yield from set_lines(headings, columns)


def draw_rows(section: Section, columns: Columns, words: Words) -> Iterator[Text]:
    """The steps of one section, every other one on a lighter ground."""
    card = words.surface("card")
    for place, row in enumerate(section.rows):
        for line in set_lines(draw_row(row, columns, words), columns):
            if place % 2:
                line.style = card
            yield line


def set_lines(cells: Sequence[Sequence[Text]], columns: Columns) -> Iterator[Text]:
    """A row of cells, each given as its lines, set side by side; every line is exactly as wide as the table.

    It is done by hand because a table of many thousand rows would take rich half a minute.
    """
    last = len(columns.columns) - 1
    for place in range(max(map(len, cells))):
        line = Text(no_wrap=True, overflow="crop")
        for number, (cell, column) in enumerate(zip(cells, columns.columns, strict=True)):
            width = column.width if number in (0, last) else column.width + GAP // 2
            part = cell[place] if place < len(cell) else Text()
            size = part.cell_len
            if size > width:
                part = part.copy()
                part.truncate(width, overflow="crop")
                size = part.cell_len
            blank = " " * (width - size)
            line.append(blank if column.right else "")
            line.append_text(part)
            line.append(("" if column.right else blank) + " " * (GAP // 2 if number < last else 0))
        yield line


def draw_row(row: Row, columns: Columns, words: Words) -> list[Sequence[Text]]:
    """The cells of one step, each as its lines."""
    widths = [column.width for column in columns.columns]
    number = [words.quiet(str(row.number))]
    arrow = words.quiet(f"{words.signs.arrow} ")
    inputs, outputs = list_shapes(row.step.inputs, words), list_shapes(row.step.outputs, words)
    shapes = [*inputs, *[arrow + shape if place == 0 else shape for place, shape in enumerate(outputs)]]
    count, mask = row.step.params, mask_words(row, words, share=columns.kind == "wide")
    flops, stored = say_flops(row), say_short(row.work.bytes, "B") if row.work.bytes else ""
    if columns.kind == "list":
        operation = f"{row.step.op}{', ' + row.role if row.role else ''}"
        facts = [*words.sentence(operation), *([words.plain(f"{count:,}"), words.quiet("parameters")] if count else [])]
        facts += [words.plain(flops), words.quiet("FLOPs")] if flops else []
        facts += [words.plain(stored)] if stored else []
        lines = (*flow([name_words(row, words)], widths[1]), *flow(facts, widths[1]), *flow(shapes, widths[1]))
        return [number, (*lines, *describe_axes(row, words, widths[1]), *flow(mask, widths[1]))]
    name = (*flow([name_words(row, words)], widths[1]), *list_below(row, words, widths[1]))
    both = (*flow(shapes, widths[2]), *describe_axes(row, words, widths[2]))
    work = [text for text in (flops, stored) if text]
    if columns.kind == "slim":
        first = [*mask, *([words.plain(f"{count:,} params")] if count else [])]
        told = words.plain(", ".join(work))
        return [number, name, both, [*first, Text(" ") + told if first else told]]
    params = words.plain(f"{count:,}") if count else Text()
    if columns.kind == "medium":
        second = [Text(" ") + params] if count else []
        return [number, name, both, [*mask, *second], [words.plain(text) for text in work]]
    elements = words.quiet(say_short(row.work.elements) if row.work.elements else "")
    line = words.quiet(cut_front(words.clean(source_line(row)), widths[8], words))
    return [number, name, both, mask, [params], [words.plain(flops)], [elements], [words.plain(stored)], [line]]


def say_flops(row: Row) -> str:
    """The FLOPs of a row, with a question mark where something in it could not be counted."""
    told = say_short(row.work.flops) if row.work.flops else ""
    return f"{told} ?".strip() if row.work.uncounted else told


def below_name(row: Row) -> str:
    """What stands below a step's name: its operation, where the name does not say it already, and its role."""
    op, last = row.step.op, row.name.rsplit(".", 1)[-1]
    role = row.role or ("derived" if row.step.settings.get("derived") else "")
    is_said = last == op or role.startswith(op.replace("_", " "))
    said = [text for text in ("" if is_said else op, role) if text]
    return "  " * row.indent + " " + ": ".join(said) if said else ""


def list_below(row: Row, words: Words, width: int) -> tuple[Text, ...]:
    """What stands below a step's name, on three lines at most."""
    said = words.clean(below_name(row))
    if Text(said).cell_len <= width:
        return (words.quiet(said),) if said else ()
    indent = " " * min(len(said) - len(said.lstrip()), width // 2)
    lines = flow([words.quiet(word) for word in said.split()], width - len(indent))
    kept = [*(line.plain for line in lines[: MOST_BELOW - 1]), " ".join(line.plain for line in lines[MOST_BELOW - 1 :])]
    return tuple(words.quiet(words.cut(indent + line, width)) for line in kept if line)


def source_line(row: Row) -> str:
    """The file and the line that called the step, without the folders before it."""
    return (row.step.location or "").rsplit("/", 1)[-1]


def cut_front(text: str, width: int, words: Words) -> str:
    """Text that takes at most so many cells, its beginning left out if need be."""
    if Text(text).cell_len <= width:
        return text
    while text and Text(words.signs.more + text).cell_len > width:
        text = text[1:]
    return words.signs.more + text


def describe_axes(row: Row, words: Words, width: int) -> Sequence[Text]:
    """The axis names of what the step made; of one that failed, why."""
    if row.step.error is not None:
        return list_failure(row.step, words, width, is_around=row.is_around_failure)
    return (*flow(list_axes(row.step.outputs, words), width), *list_ranks(row.step, words, width))


def list_ranks(step: Step, words: Words, width: int) -> Sequence[Text]:
    """What this rank has of what the step made, where that is not all; of an exchange, among whom, and how much."""
    told = []
    for record in step.outputs if len(step.outputs) <= MANY else ():
        if record.local is not None and (record.local != record.shape or "P" in (record.placement or "P")):
            here = words.signs.times.join(map(str, record.local)) or "()"
            told += [words.quiet(word) for word in f"here {here} {record.placement or ''}".split(" ") if word]
    exchange = read_exchange(step)
    if exchange is not None:
        size = say_short(exchange.bytes, "B")
        told += [words.accent(word, "boundary") for word in f"{exchange.group} ({exchange.ranks}): {size}".split(" ")]
    return flow(told, width)


def name_words(row: Row, words: Words) -> Text:
    """What the step is called, a block in bold; under it stands what is inside."""
    name = indented(row)
    return words.strong(name) if row.is_block else words.plain(name)


def indented(row: Row) -> str:
    """The step's name with the blanks before it that show what it stands inside."""
    return "  " * row.indent + (row.name if row.step.call == 0 else f"{row.name}, call {row.step.call + 1}")


def list_shapes(records: Sequence[TensorRecord], words: Words) -> list[Text]:
    """The shapes of a step's tensors with commas between them; many are counted."""
    if len(records) > MANY:
        return [words.plain(f"{len(records)} {'gradients' if is_backward(records) else 'tensors'}")]
    return join_shapes([words.shape(record) for record in records], words)


def list_axes(records: Sequence[TensorRecord], words: Words) -> list[Text]:
    """The axis words of what a step made, as pieces to be set on lines.

    They stand once where several tensors have the same. Of many tensors, how many there are of each shape.
    """
    if len(records) > MANY:
        counts = Counter(record.shape for record in records)
        first = {record.shape: record for record in reversed(records)}
        shapes = [
            words.quiet(f"{count} of ") + words.shape(first[shape]) if count > 1 else words.shape(first[shape])
            for shape, count in counts.items()
        ]
        return join_shapes(shapes, words)
    different = {record.axes: record for record in records}.values()
    return [words.axes(record) for record in different if any(record.axes) or not record.shape]


def join_shapes(shapes: Sequence[Text], words: Words) -> list[Text]:
    """Shapes with commas between them, as pieces to be set on lines."""
    return [shape + words.quiet(",") if place < len(shapes) - 1 else shape for place, shape in enumerate(shapes)]


def is_backward(records: Sequence[TensorRecord]) -> bool:
    """Whether these tensors are gradients of parameters."""
    return all(record.role == "parameter" for record in records)


def mask_words(row: Row, words: Words, *, share: bool) -> list[Text]:
    """The kind of the mask that the step made or obeyed, and the share that it hides."""
    if row.mask is None:
        return []
    facts = row.mask.mask
    if facts is None:
        return [words.accent("mask", "boundary")]
    name = name_mask(facts)
    kind = "nothing hidden" if name == "none" else name
    return [words.accent(f"{kind} {spell_share(facts.hidden_share, short=True)}" if share else kind, "boundary")]
