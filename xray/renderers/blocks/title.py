"""What stands above the layered drawing: the title, what is drawn and what not, the colours' legend, alarms, turns."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.trace import Trace
from xray.renderers.blocks.marks import broken, list_marks
from xray.renderers.blocks.nodes import Drawn, shortened, surface_of
from xray.renderers.sheet.markup import table, write_run
from xray.renderers.themes import Theme
from xray.story.alarms.kinds import Alarm
from xray.story.blocks.items import Item, Plan
from xray.story.blocks.kinds import KINDS, SAID
from xray.story.blocks.turn_rows import TurnRow, list_turns
from xray.story.body.whole import anatomy
from xray.story.cards.title import list_sizes
from xray.story.cards.told import Scored
from xray.story.compare.marks import Marks
from xray.story.facts.totals import count_params
from xray.story.layout import Line, Run
from xray.story.shapes import hue
from xray.story.wording import join_words, plural

LARGEST_TITLE = 3.0
MOST_ALARMS, MOST_IDLE = 4, 2
ROWS_IN_COLUMN = 20
MOST_ROWS = 80
HEADS = ("turn", "is fed", "queries × keys", "cached", "gives", "chose")


def write_title(
    trace: Trace, drawn: Sequence[Drawn], theme: Theme, marks: Marks | None, alarms: Sequence[Alarm], unseen: int
) -> str:
    """The title's table: the more nodes are drawn the larger, to be read first on a large drawing too."""
    nodes = sum(len(one.plan.nodes) for one in drawn)
    scale = max(1.0, min(LARGEST_TITLE, (nodes / 20) ** 0.5))
    lines: list[Line] = [(Run(shortened(trace.title), 26, "text", "black"),), *list_size_lines(trace)]
    notes = (*list_depth(drawn), *list_unseen(unseen), *list_idle(trace))
    lines += [(Run(note, 12, "quiet"),) for note in notes]
    if alarms:
        heading = "1 ALARM" if len(alarms) == 1 else f"{len(alarms):,} ALARMS"
        lines += [(Run(" ", 6),), (Run(heading, 16, "accent:warning", "bold"),)]
        for alarm in alarms[:MOST_ALARMS]:
            lines += [(Run(line, 13, "text", "semibold"),) for line in broken(alarm.text)]
        if len(alarms) > MOST_ALARMS:
            lines.append((Run(f"and {len(alarms) - MOST_ALARMS:,} more", 12, "quiet"),))
    if marks is not None:
        lines += list_marks(marks)
    enlarged = [tuple(replace(run, size=round(run.size * scale)) for run in line) for line in lines if line[0].text]
    rows = [cell(table(enlarged, "page", theme, "LEFT"))]
    rows.append(cell(write_legend(drawn, theme, scale)))
    rows += [cell(write_turns(one, theme, scale)) for one in drawn if len(one.group.passes) > 1]
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="6" CELLPADDING="2">{"".join(rows)}</TABLE>>'


def list_size_lines(trace: Trace) -> list[Line]:
    """The sizes of the trace, or of each of its towers, and how many parameters there are."""
    params = count_params(trace)
    ends = [("parameters", "other", f"{params:,}")] if params else []
    if trace.sizes:
        rows = [[(name, name, f"{size:,}") for name, size in trace.sizes.items()]]
    else:
        whole = anatomy(trace)
        scored = whole.head.size or 0 if whole.head is not None and whole.head.kind == "vocabulary" else 0
        rows = [
            [(tower.name, "other", "") for _ in whole.towers[1:2]]
            + list_sizes(tower, Scored(scored if tower == whole.towers[-1] else 0))
            for tower in whole.towers
        ]
    rows = [*rows[:-1], [*(rows[-1] if rows else []), *ends]]
    return [tuple(run for pair in row for run in write_pair(*pair)) for row in rows if row]


def write_pair(name: str, axis: str, value: str) -> Line:
    """A name and its number, that in the hue of its axis."""
    return (Run(f"{name} ", 12, "quiet"), Run(f"{value}   ", 13, hue(axis), "bold"))


def cell(content: str) -> str:
    """A row of one cell around a table, be it written as a whole label or not."""
    inner = content[1:-1] if content.startswith("<<") else content
    return f'<TR><TD ALIGN="LEFT">{inner}</TD></TR>'


def list_depth(drawn: Sequence[Drawn]) -> list[str]:
    """How deep the drawing goes, where it does not go to the end."""
    nodes = [(one.plan, node) for one in drawn for node in one.plan.nodes]
    closed = sum(node.kind == "closed" and surface_of(plan, node) == "op_block" for plan, node in nodes)
    bundles = sum(node.kind == "bundle" and node.piece is None for _, node in nodes)
    steps = sum(len(one.plan.tree.steps) for one in drawn)
    notes = [f"{steps:,} steps"]
    gathered = sum(count_gathered(plan, node) for plan, node in nodes)
    if closed or gathered:
        deepest = max(one.plan.levels for one in drawn)
        depth = max(one.plan.depth for one in drawn)
        more = f", and {gathered:,} more in bundles," if gathered else ""
        told = f"{plural(closed, 'block')}{more}" if closed else f"{plural(gathered, 'block')} in bundles"
        blocks = f"{told} {'is' if closed + gathered == 1 else 'are'}"
        notes[0] += f", drawn down to level {depth} of {deepest}. {blocks} closed: --depth or --open shows more"
    if bundles:
        notes.append("Where one block holds very many steps, they are gathered in bundles")
    return notes


def count_gathered(plan: Plan, node: Item) -> int:
    """How many blocks are closed in a bundle; none in any other node, nor in one that a reader knows by one word."""
    places = [plan.tree.places[step.id] for step in node.heads if node.kind == "bundle" and node.piece is None]
    return sum(bool(plan.tree.inside[place]) for place in places) * node.count


def list_idle(trace: Trace) -> list[str]:
    """The largest parts whose parameters are counted above, and that took no part in what was recorded."""
    unused = anatomy(trace).unused
    told = [f"{shortened(one.path)} ({one.params:,} parameters)" for one in unused[:MOST_IDLE]]
    left = unused[MOST_IDLE:]
    told += [f"{len(left):,} more ({sum(one.params for one in left):,})"] if left else []
    return [f"Took no part: {join_words(told)}"] if told else []


def list_unseen(unseen: int) -> list[str]:
    return [f"and {unseen:,} passes that are unlike these, not drawn"] if unseen else []


def write_legend(drawn: Sequence[Drawn], theme: Theme, scale: float) -> str:
    """A chip for each kind of operation in the drawing."""
    used = {surface_of(one.plan, node) for one in drawn for node in one.plan.nodes}
    chips = [(f"op_{kind}", SAID[kind]) for kind in KINDS if f"op_{kind}" in used]
    if "op_block" in used:
        chips.append(("op_block", "closed block"))
    cells = "".join(
        f'<TD BGCOLOR="{theme.surfaces[surface].fill}" COLOR="{theme.surfaces[surface].line}" BORDER="1" '
        f'STYLE="ROUNDED">{write_run(Run(said, round(11 * scale), "text", "semibold"), surface, theme, 1)}</TD>'
        for surface, said in chips
    )
    rows = f"<TR>{cells}</TR>" if cells else "<TR><TD></TD></TR>"
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="5" CELLPADDING="4">{rows}</TABLE>'


def write_turns(drawn: Drawn, theme: Theme, scale: float) -> str:
    """A row for each pass of a group, in columns side by side; the middle ones left out where they are very many."""
    rows: list[TurnRow | int] = list(list_turns(drawn.group))
    if len(rows) > MOST_ROWS:
        left = len(rows) - MOST_ROWS
        rows = [*rows[: MOST_ROWS - 10], left, *rows[-10:]]
    height = -(-len(rows) // -(-len(rows) // ROWS_IN_COLUMN))
    columns = [rows[start : start + height] for start in range(0, len(rows), height)]
    used = [place for place in range(len(HEADS)) if any(cells_of(row)[place] for row in rows)]
    heads = HEADS if any(row.attends for row in rows if isinstance(row, TurnRow)) else ("pass", *HEADS[1:])
    tables = "".join(
        f'<TD VALIGN="TOP">{write_column([*column, *[0] * (height - len(column))], heads, used, theme, scale)}</TD>'
        for column in columns
    )
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="8" CELLPADDING="0"><TR>{tables}</TR></TABLE>'


def cells_of(row: TurnRow | int) -> tuple[str, ...]:
    """The cells of a row; a number stands for so many rows left out, 0 for an empty row at the end."""
    if row == 0:
        return ("",) * len(HEADS)
    if isinstance(row, int):
        return ("…", f"{row:,} more", "", "", "", "")
    return (str(row.place), row.fed, row.attends, row.cached, row.output, row.chosen)


def write_column(
    rows: Sequence[TurnRow | int], heads: Sequence[str], used: Sequence[int], theme: Theme, scale: float
) -> str:
    size = round(11 * scale)
    card = theme.surfaces["card"]
    head = "".join(write_cell(heads[place], Run("", size, "quiet"), theme) for place in used)
    style = Run("", size, "text", "semibold")
    told = ([write_cell(cells_of(row)[place], style, theme) for place in used] for row in rows)
    body = "".join(f"<TR>{''.join(cells)}</TR>" for cells in told)
    return (
        f'<TABLE BORDER="1" COLOR="{card.line}" BGCOLOR="{card.fill}" CELLBORDER="0" CELLSPACING="0" CELLPADDING="3" '
        f'STYLE="ROUNDED"><TR>{head}</TR>{body}</TABLE>'
    )


def write_cell(text: str, style: Run, theme: Theme) -> str:
    return f'<TD ALIGN="LEFT">{write_run(replace(style, text=shortened(text) or " "), "card", theme, 1)}</TD>'
