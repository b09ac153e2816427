"""Several streams side by side, mixed anew at every sum: hyper-connections (Zhu et al. 2024, Xie et al. 2026)."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, PRODUCTS, REPEATS, SCALINGS
from xray.story.recognition.between import Region, find_region, strip_plain


@dataclass(frozen=True)
class Mixing:
    """How a sum stands among `count` streams, and the part of a branch that works on one row of each place.

    `stream` made the streams, `gather` makes one row of them by weights that are worked out of them, `region` is what
    is done to that row, `spread` gives it back to every stream by such weights, and `mix` is the product of the streams
    with a matrix that is worked out of them too. `weights` are the steps that work these weights out.
    """

    count: int
    stream: int
    gather: int
    region: Region
    spread: int
    mix: int
    weights: frozenset[int]

    @property
    def nodes(self) -> frozenset[int]:
        """Every step of it that is not the branch's own."""
        return self.weights | {self.gather, self.spread, self.mix}


def find_mixing(flow: Flow, add: int) -> Mixing | None:
    """The streams that a sum adds to, if they are several that a matrix made of them mixes on their way."""
    shape = flow.output(add).shape
    for number in (0, 1) if len(flow.makers[add]) == 2 else ():
        mix = strip_plain(flow, flow.makers[add][number])
        spread = strip_plain(flow, flow.makers[add][1 - number])
        stream = None if mix is None else find_mixed(flow, mix, shape)
        end = None if spread is None else find_spread(flow, spread, shape)
        gather = None if stream is None else find_gather(flow, stream, shape)
        if mix is None or spread is None or stream is None or end is None or gather is None:
            continue
        region = find_region(flow, gather, end)
        if region is not None:
            apart = set(flow.behind(mix, spread, gather, within=stream.__lt__))
            own = region.inner | region.beside | {gather, spread, mix}
            return Mixing(shape[-2], stream, gather, region, spread, mix, frozenset(apart - own))
    return None


def find_mixed(flow: Flow, mix: int, shape: Sequence[int]) -> int | None:
    """The step that made the streams that a product mixes by a matrix with a row and a column for each of them."""
    if flow.op(mix) not in PRODUCTS or len(flow.makers[mix]) != 2 or len(shape) < 3:
        return None
    weights, streams = flow.steps[mix].inputs
    is_theirs = weights.role != "parameter" and weights.shape[-2:] == (shape[-2], shape[-2])
    return strip_plain(flow, flow.makers[mix][1]) if is_theirs and streams.shape == shape else None


def find_spread(flow: Flow, spread: int, shape: Sequence[int]) -> int | None:
    """The step whose one row for each place a product gives to every stream, times a weight for each of them."""
    if flow.op(spread) not in SCALINGS or len(flow.steps[spread].inputs) != 2:
        return None
    for record, maker in flow.given(spread):
        if record.shape == (*shape[:-2], 1, shape[-1]):
            return flow.carried_from(maker)
    return None


def find_gather(flow: Flow, stream: int, shape: Sequence[int]) -> int | None:
    """The sum that makes one row of several streams for each place, each of them weighed before."""
    todo, seen = [stream], {stream}
    while todo:
        for reader in flow.readers.get(todo.pop(), ()):
            if flow.op(reader) in SCALINGS and flow.output(reader).shape == shape:
                sums = (one for one in flow.readers.get(reader, ()) if flow.op(one) == "sum")
                found = next((one for one in sums if flow.output(one).shape == (*shape[:-2], shape[-1])), None)
                if found is not None:
                    return found
            elif flow.op(reader) in CARRYING | REPEATS and reader not in seen:
                seen.add(reader)
                todo.append(reader)
    return None
