"""How a stream and a branch meet in other ways than by a plain sum.

Several streams stand side by side, of which a sublayer works on one weighted row: hyper-connections (Zhu et al. 2024).
Or the sum is weighed: each of both is multiplied by a gate that both work out (Srivastava et al. 2015).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, DIVISIONS, DROPOUTS, PRODUCTS, SCALINGS, SUMS
from xray.ir.records import TensorRecord
from xray.story.recognition.between import Region, find_region, is_linear, strip_plain, width_out
from xray.story.recognition.values.value_shapes import number

Way = tuple[tuple[str, float | None], ...]
"""What is done to rows step by step: what bends or leads them, and a number that goes with it."""
FARTHEST = 400
"""Within so many steps streams become one row: a matrix may be made even many times over before (Xie et al. 2026)."""
BENDS = frozenset({"sigmoid", "sigmoid_"})
MOST_STEPS = 16
"""Gates are worked out of what they weigh in no more steps than these."""


@dataclass(frozen=True)
class Mixing:
    """How a sum stands among `count` streams, and the part of a branch that works on one row of each place.

    `stream` made the streams, `gather` makes one row of them by weights that are worked out of them, `region` is what
    is done to that row, and `spread` gives it back to every stream by such weights. `mix` is the product of the streams
    with a matrix that is worked out of them too, where there is one, or what takes them out of the product that makes
    the one row too. `weights` are the steps that work all this out.
    """

    count: int
    stream: int
    gather: int
    region: Region
    spread: int
    mix: int | None
    weights: frozenset[int]

    @property
    def nodes(self) -> frozenset[int]:
        """Every step of it that is not the branch's own."""
        return self.weights | {self.gather, self.spread} | (frozenset() if self.mix is None else {self.mix})


def find_mixing(flow: Flow, add: int) -> Mixing | None:
    """The streams that a sum adds to, if they are several and each gets its share of what one row became."""
    for place in (0, 1) if len(flow.makers[add]) == 2 else ():
        before = strip_plain(flow, flow.makers[add][place])
        spread = strip_plain(flow, flow.makers[add][1 - place])
        end = None if spread is None else find_spread(flow, spread)
        if before is None or spread is None or end is None:
            continue
        shape = flow.output(spread).shape
        parted = find_parted(flow, before, shape)
        mixed = find_mixed(flow, before, shape) if parted is None else parted[0]
        stream = before if mixed is None else mixed
        gather = find_gather(flow, stream, shape) if parted is None else parted[1]
        region = None if gather is None else find_region(flow, gather, end)
        if gather is None or region is None or prod(flow.output(add).shape) != prod(shape):
            continue
        mix = (None if mixed is None else before) if parted is None else parted[2]
        apart = set(flow.behind(mix, spread, gather, within=stream.__lt__))
        own = region.inner | region.beside | {gather, spread, mix}
        return Mixing(shape[-2], stream, gather, region, spread, mix, frozenset(apart - own))
    return None


def find_parted(flow: Flow, mix: int, shape: Sequence[int]) -> tuple[int, int, int] | None:
    """The steps that made streams, and that take a sublayer's row, and the streams, out of one product of them.

    The first of its rows goes through the sublayer, all others are the streams anew (Algorithm 2 of Zhu et al. 2024).
    """
    if flow.op(mix) not in PRODUCTS or flow.output(mix).shape != (*shape[:-2], shape[-2] + 1, shape[-1]):
        return None
    taken = {flow.steps[one].settings.get("index"): one for one in flow.leaf_readers(mix) if flow.op(one) == "index"}
    streams = [strip_plain(flow, maker) for record, maker in flow.given(mix) if record.shape == tuple(shape)]
    gather, rest = (taken.get(index) for index in ("..., 0, :", "..., 1:, :"))
    if len(streams) != 1 or streams[0] is None or gather is None or rest is None:
        return None
    return streams[0], gather, rest


def mixes_unread(flow: Flow, sites: Sequence[Site], mixings: Sequence[Mixing]) -> bool:
    """Whether a product makes more rows of several ones for each place, by weights that are worked out of just these.

    None of `mixings` has read it.

    One of them goes through a sublayer, and the others are the streams from there on (Algorithm 2 of Zhu et al. 2024):
    what is added to them there is not told. No product of an attention does that: queries may be made of the stream
    that keys of an earlier layer were made of (YOCO).
    """
    known = {node for site in sites for node in (site.scores, site.weighted_sum)}.union(*(one.nodes for one in mixings))
    products = (node for node in range(len(flow.steps)) if flow.op(node) in PRODUCTS and flow.is_leaf(node))
    products = (node for node in products if node not in known)
    return any(makes_more(flow, node) for node in products)


def makes_more(flow: Flow, node: int) -> bool:
    """Whether a product weighs rows of each place by as many weights for each row as it makes of all."""
    given, made = list(flow.given(node)), flow.output(node).shape
    if len(given) != 2 or len(made) < len(("batch", "place", "stream", "width")):
        return False
    for (weights, way), (rows, maker) in (given, given[::-1]):
        start = flow.carried_from(maker)
        has_rows = len(rows.shape) == len(made) and (*rows.shape[:-2], rows.shape[-1]) == (*made[:-2], made[-1])
        if not has_rows or not 1 < rows.shape[-2] < made[-2] or start is None or way is None:
            continue
        region = find_region(flow, start, way)
        worked_out = [] if region is None else [one for one in region.inner if flow.is_leaf(one)]
        is_learned = any(is_linear(flow, one) for one in worked_out) and len(worked_out) <= FARTHEST
        if is_learned and prod(weights.shape) == prod(rows.shape[:-1]) * made[-2]:
            return True
    return False


def read_weighing(flow: Flow, mixings: Sequence[Mixing | None]) -> tuple[Way, Way]:
    """How rows weigh themselves, step by step, where streams become one, and what becomes the share of each stream.

    Both are worked out of the rows that are weighed. Nothing is told where layers differ, or a step is another one.
    """
    found = {None if mixing is None else read_weights(flow, mixing) for mixing in mixings}
    return (found.pop() if len(found) == 1 else None) or ((), ())


def read_weights(flow: Flow, mixing: Mixing) -> tuple[Way, Way] | None:
    """Both ways of one mixing; None where one is not understood."""
    weighed = flow.carried_from(flow.makers[mixing.gather][0])
    factors = [] if weighed is None else list(flow.given(weighed))
    shares = [given for given in flow.given(mixing.spread) if given[0].shape[-1:] == (1,)]
    if len(factors) != 2 or len(shares) != 1:
        return None
    for weights, (_, rows) in (factors, factors[::-1]):
        ways = [follow_back(flow, one, flow.carried_from(rows)) for one in (weights, shares[0])]
        if ways[0] and ways[1]:
            return ways[0], ways[1]
    return None


def follow_back(flow: Flow, given: tuple[TensorRecord, int | None], rows: int | None) -> Way:
    """The steps from rows to what is worked out of them, linear layers by their widths; none where one is another.

    All that a step makes goes into the next one: nothing is cut off.
    """
    way: list[tuple[str, float | None]] = []
    while (node := flow.carried_from(given[1])) is not None and node != rows:
        factor = number(flow.steps[node])
        if prod(flow.output(node).shape) != prod(given[0].shape):
            return ()
        if is_linear(flow, node):
            way.append(("linear", width_out(flow, node)))
        elif flow.op(node) in SCALINGS and len(flow.makers[node]) == 1 and factor is not None:
            way.append(("div" if flow.op(node) in DIVISIONS else "mul", factor))
        elif flow.op(node) in CURVES and len(flow.makers[node]) == 1:
            way.append((flow.op(node).rstrip("_"), None))
        else:
            return ()
        given = next(flow.given(node))
    return tuple(reversed(way)) if node is not None else ()


def count_divisions(flow: Flow, mixings: Sequence[Mixing | None]) -> int | None:
    """How often every matrix that mixes streams is divided by its sums in turn; None where none is, or they differ."""
    counts = {0 if mixing is None else count_balanced(flow, mixing) for mixing in mixings}
    return counts.pop() or None if len(counts) == 1 else None


def count_balanced(flow: Flow, mixing: Mixing) -> int:
    """How often the matrix that mixes streams is divided by the sums of its columns and rows in turn; 0 if never.

    So both come near 1 (Sinkhorn and Knopp 1967), as in manifold-constrained hyper-connections (Xie et al. 2026).
    """
    axes: list[int] = []
    for node in sorted(mixing.weights):
        axis = find_divided(flow, node, mixing.count)
        axes += [] if axis is None else [axis]
    return len(axes) if len({*axes}) == 2 and all(one != other for one, other in pairwise(axes)) else 0


def find_divided(flow: Flow, node: int, count: int) -> int | None:
    """The axis along whose sums a step divides matrices of so many rows and columns; None if it does no such thing."""
    if flow.op(node) not in DIVISIONS or flow.output(node).shape[-2:] != (count, count) or len(flow.makers[node]) != 2:
        return None
    total = flow.makers[node][1]
    while total is not None and flow.op(total) in SUMS and len(flow.makers[total]) == 1:  # a small number is added
        total = flow.makers[total][0]
    if total is None or flow.op(total) != "sum" or flow.makers[total][:1] != flow.makers[node][:1]:
        return None
    rows, columns = flow.output(total).shape[-2:]
    return {(1, count): -2, (count, 1): -1}.get((rows, columns))


def find_end(flow: Flow, mixing: Mixing | None, end: int) -> int:
    """The step that makes one row of several streams behind the last of their sums; the end itself where it is one."""
    if mixing is None:
        return end
    gathered = find_gather(flow, end, flow.output(mixing.spread).shape)
    made, one = prod(flow.output(end).shape), flow.output(mixing.gather).shape
    moved = flow.ahead(end, within=lambda node: node == end or flow.op(node) in CARRYING | DROPOUTS)
    read = sorted({reader for node in moved for reader in flow.leaf_readers(node)})
    summed = (node for node in read if flow.op(node) in ("sum", "mean"))
    plain = [node for node in summed if prod(flow.output(node).shape) == prod(one) == made // mixing.count]
    return gathered or next(iter(plain), end)


def find_mixed(flow: Flow, mix: int, shape: Sequence[int]) -> int | None:
    """The step that made the streams that a product mixes by a matrix with a row and a column for each of them."""
    if flow.op(mix) not in PRODUCTS or len(flow.makers[mix]) != 2:
        return None
    weights, streams = flow.steps[mix].inputs
    is_theirs = weights.role != "parameter" and weights.shape[-2:] == (shape[-2], shape[-2])
    return strip_plain(flow, flow.makers[mix][1]) if is_theirs and streams.shape == shape else None


def find_spread(flow: Flow, spread: int) -> int | None:
    """The step whose one row for each place a product gives to every stream, times a weight for each of them."""
    step, shape = flow.steps[spread], flow.output(spread).shape
    if step.op not in SCALINGS | PRODUCTS or len(step.inputs) != 2 or len(shape) < 4 or shape[-2] < 2:
        return None
    given = {record.shape: maker for record, maker in flow.given(spread)}
    if (*shape[:-1], 1) not in given:
        return None
    return flow.carried_from(given.get((*shape[:-2], 1, shape[-1]), given.get((*shape[:-2], shape[-1]))))


def find_gather(flow: Flow, stream: int, shape: Sequence[int]) -> int | None:
    """The sum or mean that makes one row of several streams for each place, each of them weighed before."""
    todo, seen = {stream}, 0
    while todo and seen < FARTHEST:
        here, seen = min(todo), seen + 1
        todo.remove(here)
        given = flow.steps[here].inputs[:1]
        if flow.op(here) in ("sum", "mean") and given and given[0].shape == shape:
            weighed = flow.makers[here][0]
            is_weighed = weighed is not None and flow.op(weighed) in SCALINGS
            if is_weighed and flow.output(here).shape == (*shape[:-2], shape[-1]):
                return here
        todo.update(reader for reader in flow.readers.get(here, ()) if reader > here)
    return None


@dataclass(frozen=True)
class Weighing:
    """A reading of a weighed sum: `kept` made what is taken for the stream, `given` what is added to it.

    `nodes` are the steps by which both gates are worked out and multiplied in.
    """

    kept: int | None
    given: int
    nodes: frozenset[int]

    def list_learned(self, flow: Flow) -> list[int]:
        """The linear layers that make the gates."""
        return [node for node in sorted(self.nodes) if is_linear(flow, node)]


def list_weighings(flow: Flow, add: int) -> Iterator[Weighing]:
    """Both ways to read a sum of two products by gates that are worked out of both; nothing if a sum is another one."""
    products = flow.makers[add] if flow.op(add) in SUMS else ()
    if len(products) != 2:
        return
    halves = [split_product(flow, product) for product in products]
    for own, other in ((0, 1), (1, 0)):
        kept, given = halves[own], halves[other]
        if kept is None or given is None or given[0] is None or kept[0] == given[0]:
            continue
        gates = [find_region(flow, given[0], gate) for gate in (kept[1], given[1])]
        nodes = frozenset[int]().union(*(region.inner for region in gates if region is not None))
        nodes |= {product for product in products if product is not None}
        reads = kept[0] in {maker for node in nodes for maker in flow.makers[node]}
        if all(gates) and reads and len(nodes) <= MOST_STEPS and any(is_linear(flow, node) for node in nodes):
            yield Weighing(kept[0], given[0], nodes)


def split_product(flow: Flow, product: int | None) -> tuple[int | None, int] | None:
    """What a product weighs, and the step that made its gate by a sigmoid; None if it is no such product."""
    if product is None or flow.op(product) not in SCALINGS or len(flow.makers[product]) != 2:
        return None
    gates = [flow.carried_from(maker) for maker in flow.makers[product]]
    bent = [gate is not None and flow.op(gate) in BENDS for gate in gates]
    if bent.count(True) != 1:
        return None
    gate = flow.makers[product][bent.index(True)]
    return None if gate is None else (flow.makers[product][bent.index(False)], gate)
