"""What ranks tell each other: which operation, along which axis of the mesh, how many bytes, and in which layer."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

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


@dataclass(frozen=True)
class Slice:
    """How ranks share an axis: its length in the whole and here, along which axis of the mesh, and whose part it is."""

    name: str
    whole: int
    here: int
    group: str
    ranks: int
    place: int


def list_slices(trace: Trace) -> tuple[Slice, ...]:
    """What the ranks of a mesh share, by the words of the axes that it mostly divides, each once."""
    sizes = read_mesh(trace)
    places = find_places(trace, sizes)
    axes = str(trace.config.get("axes_of_mesh", "")).split(", ")
    found: dict[str, Slice] = {}
    divided, same = Counter[str](), Counter[str]()
    for step in trace.steps:
        for record in step.outputs:
            words = (record.placement or "").strip("[]").split(", ")
            if record.local is None or len(words) != len(axes):
                continue
            for axis, name in enumerate(record.axes):
                groups = [group for group, word in zip(axes, words, strict=True) if word == f"S({axis})"]
                if not groups:
                    same[name] += 1
                elif name not in ("", "1") and "*" not in name:
                    divided[name] += 1
                    place = 0
                    for group in groups:
                        place = place * sizes[group] + places[group]
                    ranks = prod(sizes[group] for group in groups)
                    one = Slice(name, record.shape[axis], record.local[axis], " × ".join(groups), ranks, place)
                    found.setdefault(name, one)
    return tuple(one for name, one in found.items() if divided[name] >= same[name])


def read_mesh(trace: Trace) -> Mapping[str, int]:
    """The axes of the mesh of a trace, each with its number of ranks; none where it is of no mesh."""
    parts = [part.partition("=") for part in str(trace.config.get("mesh", "")).split(", ")]
    return {name: int(size) for name, _, size in parts if size.isdecimal()}


def find_places(trace: Trace, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The place of the trace's rank along each axis of its mesh: those of `tp` stand next to each other."""
    rank = trace.config.get("rank", 0)
    left = rank if isinstance(rank, int) else 0
    found: dict[str, int] = {}
    alone = "fsdp" not in sizes and "tp" not in sizes
    for name in ("ep", "tp", "fsdp", "dp") if alone else ("tp", "fsdp", "dp"):
        size = sizes.get(name, 1)
        found[name] = left % size
        left //= size
    return {**dict.fromkeys(sizes, 0), **found}


def list_waits(trace: Trace) -> tuple[tuple[Exchange, tuple[str, ...]], ...]:
    """Every kind of exchange, added up, and behind which modules data waits for it: "o_proj", once for all layers."""
    by_id = {step.id: step for step in trace.steps}
    places: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for step in trace.steps:
        one = read_exchange(step)
        maker = by_id.get(step.inputs[0].source or "") if one is not None and step.inputs else None
        if one is not None and maker is not None:
            path = maker.path if maker.module else maker.parent or maker.path
            places[one.op, one.group, one.ranks][path.partition("#")[0].rsplit(".", 1)[-1]] = None
    return tuple((one, tuple(places[one.op, one.group, one.ranks])) for one in add_exchanges(trace))
