"""Alarms in the tables: what is wrong, at which step and line, why, and what to do."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from xray.ir.trace import Trace
from xray.renderers.table.heads import BOLD, draw_band
from xray.renderers.table.words import Words
from xray.story.alarms.kinds import TITLES, Alarm
from xray.story.alarms.whole import find_alarms
from xray.story.facts.selection import Pick, pick_steps


def list_alarms(trace: Trace, pick: Pick) -> tuple[Alarm, ...]:
    """The alarms of a trace, or of the steps that are picked of it."""
    alarms = find_alarms(trace)
    if not pick or not alarms:
        return alarms
    picked = {(one.kind, one.number, step.id) for one in trace.passes for step in pick_steps(one, pick)}
    return tuple(alarm for alarm in alarms if (alarm.pass_kind, alarm.number, alarm.step) in picked)


def draw_alarms(trace: Trace, pick: Pick, words: Words, width: int) -> Iterator[RenderableType]:
    """The alarms under a band of their own; nothing where there is none."""
    alarms = list_alarms(trace, pick)
    if alarms:
        title = "1 alarm" if len(alarms) == 1 else f"{len(alarms):,} alarms"
        yield Text()
        yield draw_band(Text(f" {title}", BOLD), Text(), "mask", words, width)
    for alarm in alarms:
        yield Text()
        yield from list_alarm(alarm, words)


def list_alarm(alarm: Alarm, words: Words) -> Iterator[RenderableType]:
    """What is wrong, where, why, and what to do."""
    title = words.accent(TITLES[alarm.kind], "warning", bold=True)
    where, step = words.strong(alarm.location or alarm.step), words.quiet(alarm.step)
    yield fold(Text.assemble(title, "  ", where, "  ", step))
    yield Padding(fold(words.plain(alarm.text)), (0, 0, 0, 2))
    yield Padding(fold(words.quiet(alarm.remedy)), (0, 0, 0, 2))


def fold(text: Text) -> Text:
    """Text that may be broken into lines."""
    text.no_wrap = False
    return text
