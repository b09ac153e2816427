"""The steps of a pass as tables, one table for each station, in as many columns as the width allows."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.table import Table
from rich.text import Text

from xray.ir.records import TensorRecord
from xray.renderers.table_failures import tell_failure
from xray.renderers.table_words import Words, flow, say_share, stack
from xray.story.outline import Row, Section

SHAPES_WIDTH = 33
"""Room for `batch × heads × tgt_len × src_len`, and for two shapes, an arrow and the shape that they make."""
NAME_WIDTH = 30
OUTPUT_WIDTH = 24
MASK_WIDTH = 14
"""Room for `padding+causal`."""
SHARE_WIDTH = 18
"""Room for `padding+causal 54%`."""
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
    """How the facts of a step are spread over columns.

    "wide" gives each a column of its own; "medium" puts operation below module and axis names below shapes; "slim" puts
    parameters below the mask as well; "list" sets everything below the step's name.
    """

    kind: str
    columns: tuple[Column, ...]


def choose_columns(sections: Sequence[Section], words: Words, width: int) -> Columns:
    """The columns for these steps, exactly as wide as asked: the widest arrangement that breaks no shape."""
    rows = [row for section in sections for row in section.rows]
    number = Column("#", longest("#", (str(row.number) for row in rows)), right=True)
    operation = longest("operation", (words.clean(row.step.op) for row in rows), NAME_WIDTH)
    module = longest("module", (words.clean(indented(row)) for row in rows), NAME_WIDTH)
    shapes = [words.shape(record).plain for row in rows if len(row.step.outputs) <= MANY for record in row.step.outputs]
    output = longest("output shape", shapes, OUTPUT_WIDTH)
    params = Column("parameters", longest("parameters", (f"{row.step.params:,}" for row in rows)), right=True)
    mask = Column("mask, hidden", SHARE_WIDTH)
    both = Column(f"input shapes {words.signs.arrow} output shape\naxis names of the output", SHAPES_WIDTH)
    below = longest("operation", (words.clean(f"{'  ' * row.indent} {row.step.op}") for row in rows), NAME_WIDTH)
    name = Column("module\n operation", max(module, below, len(" operation")))
    columns: tuple[Column, ...] = (
        number,
        Column("operation", operation),
        Column("module", module),
        Column("input shapes", max(OUTPUT_WIDTH, output)),
        Column("output shape", output),
        Column("axis names of the output", SHAPES_WIDTH),
        mask,
        params,
    )
    if measure(columns) <= width:
        return Columns("wide", widen(columns, 5, width))
    columns = (number, name, both, mask, params)
    if measure(columns) <= width:
        return Columns("medium", widen(columns, 2, width))
    name = replace(name, width=max(module, len(" operation")))
    columns = (number, name, both, Column("mask\n parameters", max(MASK_WIDTH, params.width + 1)))
    if measure(columns) <= width:
        room = min(width - measure(columns), max(0, below - name.width))
        columns = (number, replace(name, width=name.width + room), *columns[2:])
        return Columns("slim", widen(columns, 2, width))
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


def draw_headings(columns: Columns, words: Words) -> Table:
    """The headings of a step table, to stand once above the tables of all stations."""
    table = new_table(columns)
    table.add_row(*(words.quiet_lines(column.heading) for column in columns.columns))
    return table


def draw_rows(section: Section, columns: Columns, words: Words) -> Table:
    """The steps of one section, every other one on a lighter ground."""
    table = new_table(columns)
    for place, row in enumerate(section.rows):
        cells = draw_row(row, columns, words)
        table.add_row(*map(stack, cells), style=words.surface("card") if place % 2 else None)
    return table


def new_table(columns: Columns) -> Table:
    """An empty table with these columns, nothing drawn around them."""
    table = Table(box=None, show_header=False, padding=(0, GAP // 2, 0, 0), pad_edge=False)
    last = len(columns.columns) - 1
    for place, column in enumerate(columns.columns):
        width = column.width if place in (0, last) else column.width + GAP // 2
        table.add_column(justify="right" if column.right else "left", width=width, no_wrap=True, overflow="crop")
    return table


def draw_row(row: Row, columns: Columns, words: Words) -> list[Sequence[Text]]:
    """The cells of one step, each as its lines."""
    widths = [column.width for column in columns.columns]
    number = [words.quiet(str(row.number))]
    operation = words.quiet(row.step.op)
    params = words.plain(f"{row.step.params:,}" if row.step.params else "")
    arrow = words.quiet(f"{words.signs.arrow} ")
    inputs, outputs = list_shapes(row.step.inputs, words), list_shapes(row.step.outputs, words)
    shapes = [*inputs, *[arrow + shape if place == 0 else shape for place, shape in enumerate(outputs)]]
    mask = mask_words(row, words, share=columns.kind in ("wide", "medium"))
    if columns.kind == "wide":
        name = flow([name_words(row, words)], widths[2])
        cells = flow(inputs, widths[3]), flow(outputs, widths[4]), tell_axes(row, words, widths[5])
        return [number, flow([operation], widths[1]), name, *cells, mask, [params]]
    if columns.kind == "list":
        name = flow([name_words(row, words)], widths[1])
        facts = [operation, *([params + words.quiet(" parameters")] if row.step.params else [])]
        lines = (*name, *flow(facts, widths[1]), *flow(shapes, widths[1]), *tell_axes(row, words, widths[1]))
        return [number, (*lines, *flow(mask, widths[1]))]
    below = words.quiet(words.cut("  " * row.indent + " " + words.clean(row.step.op), widths[1]))
    name = (*flow([name_words(row, words)], widths[1]), below)
    both = (*flow(shapes, widths[2]), *tell_axes(row, words, widths[2]))
    if columns.kind == "medium":
        return [number, name, both, mask, [params]]
    return [number, name, both, [*(mask or [Text()]), Text(" ") + params]]


def tell_axes(row: Row, words: Words, width: int) -> Sequence[Text]:
    """The axis names of what the step made; of one that failed, why."""
    if row.step.error is not None:
        return tell_failure(row.step, words, width, is_block=row.is_block)
    return flow(list_axes(row.step.outputs, words), width)


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
    kind = "nothing hidden" if facts.kind == "none" else facts.kind
    return [words.accent(f"{kind} {say_share(facts.hidden_share)}" if share else kind, "boundary")]
