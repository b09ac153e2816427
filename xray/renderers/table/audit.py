"""What masks do in a network, as text for the terminal: where each one goes, and what is wrong."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from xray.renderers.table.alarms import fold, list_alarm
from xray.renderers.table.walk import Screen, print_all
from xray.renderers.table.words import Words
from xray.story.alarms.whole import Audit, Followed
from xray.text import show_controls

WIDEST = 120
"""Longer lines are hard to read."""


def print_audit(audit: Audit, screen: Screen) -> str:
    """An audit as text for the terminal, as wide as it is."""
    return print_all(list_parts(audit, screen.words), screen)


def list_parts(audit: Audit, words: Words) -> Iterator[RenderableType]:
    """How many alarms there are, where each mask goes, and the alarms one below the other."""
    title = words.accent(show_controls(audit.title), "title", bold=True)
    yield fold(Text.assemble(title, "  ", words.quiet(count_alarms(audit))))
    masks = Table.grid(padding=(0, 2))
    for mask in dict.fromkeys(audit.masks):
        masks.add_row(
            words.strong(show_controls(mask.name)), words.plain(str(mask.shape)), fold(words.quiet(reach(mask)))
        )
    if masks.row_count:
        yield Text()
        yield masks
    for alarm in audit.alarms:
        yield Text()
        yield from list_alarm(alarm, words)


def count_alarms(audit: Audit) -> str:
    """How many alarms there are, and of how many attentions."""
    alarms = "no alarm" if not audit.alarms else "1 alarm" if len(audit.alarms) == 1 else f"{len(audit.alarms)} alarms"
    attentions = "1 attention" if audit.attentions == 1 else f"{audit.attentions:,} attentions"
    return f"{alarms}, {attentions}"


def reach(mask: Followed) -> str:
    """How many of the attentions that are as long as a mask it reaches."""
    of = "reaches" if mask.reached else "reaches none of"
    return f"{of} {mask.reached} of {mask.attentions}" if mask.reached else f"{of} {mask.attentions}"
