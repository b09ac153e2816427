"""Resamplers: a few learned rows that look at what another tower gives, before a stream takes them in."""

from collections.abc import Collection
from dataclasses import dataclass

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS


@dataclass(frozen=True)
class Resampler:
    """An attention of learned rows: its steps, the last of them, how many rows ask, and how many are looked at."""

    nodes: tuple[int, ...]
    end: int
    rows: int
    seen: int
    trained: bool | None


def find_resamplers(flow: Flow, nodes: Collection[int]) -> list[Resampler]:
    """The attentions among the steps of an entrance whose queries are made of parameters alone."""
    found, known = [], set(nodes)
    for site in list_sites(flow):
        ways = (site.query, site.key, site.value)
        own = {site.scores, *site.scored, *site.weighed, site.weighted_sum, *site.concat}
        own = own.union(*(way.nodes for way in ways)) | ({site.output} if site.output is not None else set())
        shape = flow.output(site.scores).shape
        if len(shape) < 2 or own.isdisjoint(known):
            continue
        learned = read_learned(flow, site.query.nodes)
        if learned:
            inside = tuple(sorted(own & known))
            trained = None if None in learned else all(learned)
            found.append(Resampler(inside, max(inside), shape[-2], shape[-1], trained))
    return found


def read_learned(flow: Flow, nodes: Collection[int]) -> set[bool | None]:
    """Whether each parameter that steps are made of is trained; nothing where they are made of anything else too."""
    found: set[bool | None] = set()
    for node in flow.behind(*nodes):
        if flow.op(node) in LOOKUPS:
            return set()
        for record, maker in flow.given(node):
            if record.role == "parameter":
                found.add(record.trained)
            elif maker is None:
                return set()
    return found
