"""Tables of which what is added to scores is the sum: by how far apart two places are, or the boxes of two words."""

from collections.abc import Iterator

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LOOKUPS, SCALINGS, SUMS
from xray.story.entrance.inputs import name_argument
from xray.story.passages.added_places import learned_source
from xray.story.sentences.of_parts import ASKED_BY, TABLES

OF_PLACES = len(("batch", "row"))
"""An argument of more axes holds several numbers for each place."""


def describe_tables(flow: Flow, maker: int | None) -> str:
    """How many tables a bias is the sum of, and how many of these are asked by an argument; "" for one, or others."""
    asked = list(list_asked(flow, maker))
    if len(asked) < 2 or None in asked:
        return ""
    names = [name_asked(flow, one) for one in asked if one is not None]
    known = sorted({*names} - {""})
    by = "".join(ASKED_BY.format(some=names.count(name), name=name) for name in known)
    return f"{TABLES.format(many=len(asked))}{by}"


def list_asked(flow: Flow, place: int | None) -> Iterator[int | None]:
    """The steps that take rows of the tables of which a sum is made; None for what is no table."""
    while place is not None and flow.op(place) in CARRYING | SCALINGS and len(flow.makers[place]) == 1:
        place = flow.makers[place][0]
    if place is not None and flow.op(place) in SUMS:
        for maker in flow.makers[place]:
            yield from list_asked(flow, maker)
    else:
        yield place if place is not None and takes_rows(flow, place) else None


def takes_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes rows of a learned table, as ids say."""
    has_ids = any(not record.is_float for record, _ in flow.given(node))
    is_learned = any(learned_source(flow, *one) is not None for one in flow.given(node))
    return flow.op(node) in LOOKUPS or (flow.op(node) == "index" and has_ids and is_learned)


def name_asked(flow: Flow, node: int) -> str:
    """The argument with several numbers for each place by which a table is asked; "" where there is none."""
    makers = (maker for record, maker in flow.given(node) if not record.is_float)
    given = (one for here in flow.behind(*makers) for one, made in flow.taken(here) if made is None)
    names = {name_argument(flow, one) for one in given if one.role != "parameter" and len(one.shape) > OF_PLACES}
    return names.pop() if len(names) == 1 else ""
