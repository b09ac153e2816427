"""What is read of one column by boxes of others: the ways that are drawn as ribbons."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from xray.story.anatomy.tree import Link
from xray.story.charts.chart import Node
from xray.story.layout import Box
from xray.story.regions.ribbons.sources import (
    Source,
    list_begun,
    list_closed,
    list_drawn,
    list_entered,
    list_joined,
    list_led_between,
    list_led_out,
    list_multiplied,
    list_pointed,
    list_pointing,
    list_read,
    list_scored,
    list_sources,
)
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import Standing

BEGINNING = frozenset({"joined", "chosen"})
"""The kinds of links by which what a tower begins with is made of what another one gives."""


@dataclass
class Way:
    """All that one box of a column gives to boxes of another one: as memory, or for its entrance.

    What `is_worked_in` inside layers, multiplied with rows, added to scores or made keys alone, is led there as memory
    is, and called after the tower that it is from. Attentions that are `wholes`, one box each, are entered beside the
    stream. `is_kept` says of keys or values that each layer gives the one of its number.
    """

    source: Source
    target: int
    aims: list[list[Box]] = field(default_factory=list)
    is_memory: bool = True
    is_worked_in: bool = False
    is_kept: bool = False
    wholes: list[Box] = field(default_factory=list)


def list_ways(columns: Sequence[Column], standing: Sequence[Standing], links: Sequence[Link]) -> list[Way]:
    """What is read from which box, as far as it is recorded: of memory that another pass made, the tower's end."""
    ways: dict[tuple[object, ...], Way] = {}

    def lead(source: Source, target: int, *, is_memory: bool, is_worked_in: bool = False, is_kept: bool = False) -> Way:
        begun = Way(source, target, is_memory=is_memory, is_worked_in=is_worked_in, is_kept=is_kept)
        return ways.setdefault((*source.key, target, is_memory, is_worked_in, is_kept), begun)

    drawn = {id(column.reading): list_drawn(column.reading.flow, columns, standing) for column in columns}
    for target, column in enumerate(columns):
        own = [link for link in links if link.target == column.name and link.source != column.name]
        rows = [(row, True, False) for row in list_fed(column, standing[target], own)]
        rows += [([one], False, False) for one in list_taken(column, standing[target], own)]
        rows += [([one], True, True) for one in list_led_out(column, standing[target])]
        rows += [([one], False, False) for one in list_led_between(column, standing[target])]
        for kind, find in (("multiplied", list_multiplied), ("scored", list_scored)):
            is_any = any(link.kind == kind for link in own)
            rows += [(row, True, True) for row in (find(column, standing[target]) if is_any else [])]
        for row, is_memory, is_worked_in in rows:
            given: dict[tuple[object, ...], tuple[Source, list[Box]]] = {}
            for node, box in row:
                found = list_sources(column.reading.flow, node, target, columns, drawn[id(column.reading)])
                found = found or find_other_pass(columns, standing, column, own, is_memory=is_memory)
                if is_memory and not found:
                    found = list_begun(node, target, columns, standing, drawn[id(column.reading)])
                for source in found:
                    given.setdefault(source.key, (source, []))[1].append(box)
            for source, boxes in given.values():
                lead(source, target, is_memory=is_memory, is_worked_in=is_worked_in).aims.append(boxes)
        keyed = {link.source for link in own if link.kind == "keys"}
        moved = list_drawn(column.reading.flow, columns, standing, with_moved=True) if keyed else {}
        for node, box in list_joined(standing[target], keyed):
            for source in list_sources(column.reading.flow, node, target, columns, moved):
                if stands_in_layer(source, standing):
                    lead(source, target, is_memory=True, is_kept=True).aims.append([box])
        for node, box in list_pointed(column, standing[target]):
            for source in list_pointing(node, target, columns, standing, drawn[id(column.reading)]):
                lead(source, target, is_memory=True, is_worked_in=True).aims.append([box])
        begun = find_begun(column, own, drawn[id(column.reading)])
        if begun is not None:
            lead(begun, target, is_memory=False).aims.append([standing[target].drawn.first])
        for node, box, is_alone in list_closed(column, standing[target]):
            found = list_sources(column.reading.flow, node, target, columns, drawn[id(column.reading)])
            for source in found or find_other_pass(columns, standing, column, own, is_memory=True):
                lead(source, target, is_memory=True, is_worked_in=is_alone).wholes.append(box)
    return list(ways.values())


def stands_in_layer(source: Source, standing: Sequence[Standing]) -> bool:
    """Whether a box stands inside a layer, so that it is alike in the others for which that stands."""
    return any(source.box in shown.placed[0].boxes.values() for shown in standing[source.column].drawn.shown)


def list_fed(column: Column, standing: Standing, links: Sequence[Link]) -> list[list[tuple[Node, Box]]]:
    """The boxes of each stage of a column that read memory, where any is linked to it."""
    sources = {link.source for link in links if link.kind == "memory"}
    return list_read(standing, sources) if sources else []


def list_taken(column: Column, standing: Standing, links: Sequence[Link]) -> list[tuple[Node, Box]]:
    """The boxes of a column's entrance that rows of other towers go into, where any are."""
    return list_entered(column, standing) if any(link.kind in BEGINNING for link in links) else []


def find_begun(column: Column, links: Collection[Link], drawn: Mapping[int, Source | None]) -> Source | None:
    """The box of another tower in which a stream begins that goes through nothing before its first layer."""
    flow, start = column.reading.flow, column.towering.chains[0].start
    goes_on = column.is_first and column.entrance is None and any(link.kind in BEGINNING for link in links)
    return drawn.get(flow.carried_from(start) or 0) if goes_on else None


def find_other_pass(
    columns: Sequence[Column], standing: Sequence[Standing], column: Column, links: Collection[Link], *, is_memory: bool
) -> list[Source]:
    """Where a tower ends that another pass went through, and whose result is the memory of this one."""
    names = {link.source for link in links if link.kind == "memory"} if is_memory else set()
    return [
        Source(number, standing[number].ends(one)[0])
        for number, one in enumerate(columns)
        if one.is_last and one.name in names and one.reading is not column.reading
    ]
