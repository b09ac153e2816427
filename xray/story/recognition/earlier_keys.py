"""Keys and values that an earlier layer made, and that a later one reads again (YOCO, Gemma 3n); its scores, too."""

from collections.abc import Iterator

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, REPEATS, SCALINGS
from xray.ir.flow.remembering import once

MOST_MOVES = 12


def find_earlier(flow: Flow, reader: int, number: int, start: int | None) -> int | None:
    """The step of an earlier layer that made what a later one reads as keys or values; None if they are not of such.

    It stands before the stream that the later layer begins with, and attentions that look at themselves read it there.
    """
    if start is None:
        return None
    known = keep_readers(flow)
    found = (here for here in carried(flow, flow.makers[reader][number]) if here < start)
    return next((here for here in found if any(one < start for one in known.get(here, ()))), None)


@once
def keep_readers(flow: Flow) -> dict[int, list[int]]:
    """The attentions that look at themselves by each of the steps that hand them keys or values, as they are."""
    found: dict[int, list[int]] = {}
    for site in list_sites(flow):
        if site.kind == "self":
            for place, end in ((site.scores, site.key.end), (site.weighted_sum, site.value.end)):
                for maker in (maker for record, maker in flow.given(place) if record is end):
                    for here in carried(flow, maker):
                        found.setdefault(here, []).append(site.scores)
    return found


def find_other_scores(flow: Flow, own: int | None, maker: int | None) -> int | None:
    """The product of another attention whose scores are added to those of an own one; None if none are.

    They may be masked, and scaled (LiLT, RealFormer).
    """
    found = keep_scored(flow).get(here) if (here := flow.carried_from(maker, CARRYING | SCALINGS)) is not None else None
    return None if found == own else found


@once
def keep_scored(flow: Flow) -> dict[int, int]:
    """The product of queries and keys from which an attention's scores come, by each step up to its softmax."""
    return {node: site.scores for site in list_sites(flow) for node in site.scored[:-1]}


def carried(flow: Flow, here: int | None) -> Iterator[int]:
    """A step and those that it hands on, moved and repeated at most."""
    for _ in range(MOST_MOVES):
        if here is None:
            return
        yield here
        if flow.op(here) not in CARRYING | REPEATS or not flow.makers[here]:
            return
        here = flow.makers[here][0]
