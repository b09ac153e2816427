"""What ranks tell each other: which operation, along which axis of the mesh, how many bytes, and in which layer."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from xray.ir.trace import Step, Trace


@dataclass(frozen=True)
class Exchange:
    """One exchange, or several of a kind: `bytes` are of all that a rank gives or gets, whichever is more."""

    op: str
    group: str
    ranks: str
    bytes: int
    times: int = 1


def read_exchange(step: Step) -> Exchange | None:
    """What a step exchanges with other ranks; None where it is no exchange."""
    group, ranks, size = (step.settings.get(name) for name in ("group", "group_ranks", "bytes"))
    if not isinstance(group, str) or not isinstance(ranks, str) or not isinstance(size, int):
        return None
    return Exchange(step.op, group, ranks, size)


def add_exchanges(trace: Trace) -> tuple[Exchange, ...]:
    """All exchanges of a trace, added up by operation and group, in the order in which these first occur."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for step in trace.steps:
        one = read_exchange(step)
        if one is not None:
            found[one.op, one.group, one.ranks].append(one.bytes)
    return tuple(Exchange(*key, bytes=sum(sizes), times=len(sizes)) for key, sizes in found.items())


def bytes_by_layer(trace: Trace) -> Mapping[int | None, int]:
    """The bytes that are exchanged in each layer, under None what stands outside of layers."""
    found: dict[int | None, int] = defaultdict(int)
    for step in trace.steps:
        one = read_exchange(step)
        if one is not None:
            found[step.layer] += one.bytes
    return found
