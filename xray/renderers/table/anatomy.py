"""What a network is made of as tables: for the terminal, and as HTML for a notebook."""

from collections.abc import Iterator
from html import escape

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from xray.renderers.table.alarms import fold
from xray.renderers.table.walk import Screen, print_all
from xray.renderers.table.words import Words
from xray.story.anatomy.tree import Anatomy, Tower
from xray.story.anatomy.wording import describe_network, describe_tower, list_ends, list_lines
from xray.text import show_controls

NOTHING = "no residual stream was found: nothing is said of its layers"
WIDEST = 180
"""Longer lines are hard to read."""

COLUMNS = ("layers", "part", "sizes", "", "norm")


def print_anatomy(anatomy: Anatomy, title: str, screen: Screen) -> str:
    """An anatomy as text for the terminal, as wide as it is."""
    return print_all(list_parts(anatomy, title, screen.words), screen)


def list_parts(anatomy: Anatomy, title: str, words: Words) -> Iterator[RenderableType]:
    """The title, a table for each tower, and how it ends."""
    yield fold(Text.assemble(words.accent(title, "title", bold=True), "  ", words.quiet(describe_network(anatomy))))
    if not anatomy.towers:
        yield fold(words.quiet(NOTHING))
    for tower in anatomy.towers:
        yield Text()
        yield fold(Text.assemble(words.strong(tower.name), "  ", words.plain(describe_tower(tower))))
        yield draw_tower(tower, words)
    ends = Table.grid(padding=(0, 2))
    for name, told in list_ends(anatomy):
        ends.add_row(words.quiet(name), fold(words.plain(told)))
    if ends.row_count:
        yield Text()
        yield ends


def draw_tower(tower: Tower, words: Words) -> Table:
    """A row for each branch of a tower's layers, below what stands before them."""
    table = Table.grid(padding=(0, 2))
    for line in list_lines(tower):
        told = (line.sizes, line.traits, line.norm)
        table.add_row(
            fold(words.quiet(line.layers)), fold(words.strong(line.part)), *(fold(words.plain(one)) for one in told)
        )
    return table


def draw_html(anatomy: Anatomy) -> str:
    """An anatomy as HTML tables without any style of their own."""
    parts = [f"<p>{clean(describe_network(anatomy))}</p>"]
    if not anatomy.towers:
        parts.append(f"<p>{NOTHING}</p>")
    for tower in anatomy.towers:
        head = "".join(f"<th>{name}</th>" for name in COLUMNS)
        rows = [(line.layers, line.part, line.sizes, line.traits, line.norm) for line in list_lines(tower)]
        body = "".join(f"<tr>{''.join(f'<td>{clean(told)}</td>' for told in row)}</tr>" for row in rows)
        caption = f"<caption><b>{clean(tower.name)}</b> {clean(describe_tower(tower))}</caption>"
        parts.append(f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    ends = "".join(f"<tr><th>{clean(name)}</th><td>{clean(told)}</td></tr>" for name, told in list_ends(anatomy))
    if ends:
        parts.append(f"<table><tbody>{ends}</tbody></table>")
    return "".join(parts)


def clean(text: str) -> str:
    """Text that is shown as it is, whatever stands in it."""
    return escape(show_controls(text))
