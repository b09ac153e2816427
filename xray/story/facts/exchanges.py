"""What ranks tell each other: which operation, along which axis of the mesh, how many bytes, and in which layer."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from xray.ir.flow.remembering import once
from xray.ir.trace import Step, Trace


@dataclass(frozen=True)
class Exchange:
    """One exchange, or several of a kind: `bytes` are of all that a rank gives or gets, whichever is more.

    `of` is "weights" or "gradients" where these are exchanged, and not what flows through the model. `is_back` says
    that it belongs to back-propagation.
    """

    op: str
    group: str
    ranks: str
    bytes: int
    times: int = 1
    of: str = ""
    is_back: bool = False

    @property
    def kind(self) -> tuple[str, str, str, str, bool]:
        """By what exchanges are added up."""
        return self.op, self.group, self.ranks, self.of, self.is_back


def read_exchange(step: Step) -> Exchange | None:
    """What a step exchanges with other ranks; None where it is no exchange."""
    group, ranks, size = (step.settings.get(name) for name in ("group", "group_ranks", "bytes"))
    if not isinstance(group, str) or not isinstance(ranks, str) or not isinstance(size, int):
        return None
    return Exchange(
        step.op,
        space_commas(group),
        space_commas(ranks),
        size,
        of=str(step.settings.get("of", "")),
        is_back=step.settings.get("during") == "backward",
    )


def space_commas(text: str) -> str:
    """A list as people write it; traces of before have "0,2"."""
    return re.sub(r",(?=\S)", ", ", text)


@once
def list_exchange_steps(trace: Trace) -> tuple[tuple[Step, Exchange], ...]:
    """The steps of a trace at which ranks tell each other something, in order."""
    read = ((step, read_exchange(step)) for step in trace.steps)
    return tuple((step, one) for step, one in read if one is not None)


@once
def add_exchanges(trace: Trace) -> tuple[Exchange, ...]:
    """All exchanges of a trace, added up by kind and group, in the order in which these first occur."""
    found: dict[tuple[str, str, str, str, bool], Exchange] = {}
    for _, one in list_exchange_steps(trace):
        sum_of = found.get(one.kind)
        found[one.kind] = (
            one if sum_of is None else replace(sum_of, bytes=sum_of.bytes + one.bytes, times=sum_of.times + 1)
        )
    return tuple(found.values())


def bytes_by_layer(trace: Trace) -> Mapping[int | None, int]:
    """The bytes that are exchanged in each layer, under None what stands outside of layers."""
    found: dict[int | None, int] = defaultdict(int)
    for step, one in list_exchange_steps(trace):
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

    @property
    def parts(self) -> tuple[int, ...]:
        """The parts of all ranks, where they are uneven: as many each, rounded up, and the last ones what is left.

        None where this rank's part is none of these.
        """
        each = -(-self.whole // self.ranks)
        parts = tuple(max(0, min(each, self.whole - number * each)) for number in range(self.ranks))
        return parts if self.whole % self.ranks and parts[self.place] == self.here else ()


def list_slices(trace: Trace) -> tuple[Slice, ...]:
    """What the ranks of a mesh share, by the words of the axes that it mostly divides, each once.

    None where the trace does not tell its mesh, as that of a script that has divided its model itself.
    """
    sizes = read_mesh(trace)
    if not sizes:
        return ()
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
    """Every kind of exchange, added up, and at which modules data waits for it: "o_proj", once for all layers.

    On the way it is the module behind which data waits, on the way back the one before which its gradient does.
    """
    by_id = {step.id: step for step in trace.steps}
    places: dict[tuple[str, str, str, str, bool], dict[str, None]] = defaultdict(dict)
    for step, one in list_exchange_steps(trace):
        path = "" if one.of else find_waiting(step, by_id)
        if path:
            places[one.kind][path.partition("#")[0].rsplit(".", 1)[-1]] = None
    return tuple((one, tuple(places[one.kind])) for one in add_exchanges(trace))


def find_waiting(step: Step, by_id: Mapping[str, Step]) -> str:
    """The path of the module at which data waits for an exchange; "" where it is not known."""
    if step.settings.get("during") == "backward":
        return step.path.rpartition(".")[0]
    maker = by_id.get(step.inputs[0].source or "") if step.inputs else None
    if maker is None:
        return ""
    return maker.path if maker.module else maker.parent or maker.path
