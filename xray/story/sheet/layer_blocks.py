"""The block of the model that holds a layer and nothing else, and what stands around the layers of a tower."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS
from xray.ir.flow.remembering import once, once_for
from xray.ir.flow.weights import gather_weights, list_common, list_worked
from xray.ir.trace import Step
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.cutting.blocks import find_own_block, find_work

Layer = Sequence[Staging]
MEMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""The number by which a path takes a module of a list."""
UNCHANGING = CARRYING | DROPOUTS


@once_for
def list_around_layers(flow: Flow, towering: Towering) -> frozenset[int]:
    """The steps outside of the blocks of layers that run again in no layer, or serve others too; those behind them.

    So two linear layers give each layer of a decoder its places; those of the first depend on no data, and would be
    the first layer's alone (SAM 3). So would a table that all layers read (RoFormer), be it that what it gives is cut
    anew in between (LightGlue). What a stream goes through on its way past a branch is the layer's, and so is what
    stands in the member of a list that the layer is (GAU-alpha's norm behind the sum), and what the next layer reads
    of what stands behind its last sum, if each layer works with weights there (NodeFormer's norms).
    """
    layers = [frozenset[int]().union(*(staging.nodes for staging in layer)) for layer in towering.layers]
    blocks = [find_block(flow, layer) for layer in towering.layers]
    works = [find_work(flow, layer) for layer in towering.layers]
    numbered = [find_own_block(flow, work, works) for work in works]
    places = [flow.places[block.id] for block in blocks if block is not None]
    places += [place for place in numbered if place is not None]
    inside = {node for place in places for node in range(place, flow.ends[place])}
    inside |= frozenset[int]().union(*(joint.past for staging in towering.stagings for joint in staging.joints))
    outsides = [set[int]() if block is None else nodes - inside for nodes, block in zip(layers, blocks, strict=True)]
    times = Counter(node for nodes in layers for node in nodes)
    learned = {node for node, step in enumerate(flow.steps) if step.is_learned}
    running = [(node, step.path) for node, step in enumerate(flow.steps) if step.params]
    found: set[int] = set()
    given = list_given(flow, towering.layers, outsides)
    for nodes, outside in zip(layers, outsides, strict=True):
        if not outside:
            continue
        apart = frozenset[int]().union(*(other for other in outsides if other is not outside))
        again = {path for node, path in running if node not in times or node in apart}
        others = {node for node in times if times[node] > (node in nodes)}
        makers = {maker for node in others for maker in flow.makers[node]}
        free = set(range(len(flow.steps))).difference(learned, nodes)
        ways = {*flow.behind(*makers, within=free.__contains__)}
        read = {maker for node in others | ways for maker in flow.makers[node]}
        met = [node for node in outside if flow.steps[node].path in again or (node in read and node not in given)]
        found |= {*flow.behind(*met, within=outside.__contains__)} if met else set()
    return frozenset(found)


def list_given(flow: Flow, layers: Sequence[Layer], outsides: Sequence[Collection[int]]) -> set[int]:
    """The last sums of layers, and what stands behind these in each, outside of its block; none where one has none."""
    ends = [layer[-1].joints[-1].add for layer in layers]
    behind = [{*flow.ahead(end, within=some.__contains__)} for end, some in zip(ends, outsides, strict=True)]
    return set[int]().union(*behind) if all(gather_weights(flow, some) for some in behind) else set()


def list_modules(flow: Flow, towering: Towering, towers: Sequence[Towering]) -> list[str]:
    """The module of a list of blocks that each layer is, by its path; nothing where it is none, or holds others' too.

    Layers with the weights of one module are that one, be it in no list (the universal transformer).
    """
    others = [layer for one in towers if one is not towering for layer in one.layers]
    theirs = frozenset[int]().union(*(staging.nodes for layer in others for staging in layer))
    nodes = [frozenset[int]().union(*(staging.nodes for staging in layer)) for layer in towering.layers]
    nodes = [some - theirs | list_inner(layer) for some, layer in zip(nodes, towering.layers, strict=True)]
    weights = [gather_weights(flow, some).keys() for some in (*nodes, *map(list_inner, others))]
    found = []
    for layer in towering.layers:
        own = gather_weights(flow, list_inner(layer)).keys()
        path = common_module(own)
        member = path[: max((one.end() for one in MEMBER.finditer(path)), default=0)]
        member = find_home(flow, layer, member)
        is_one = own == {name for name in list_worked(flow) if holds(path, name)}
        path = path if is_one and sum(own <= some for some in weights[: len(nodes)]) > 1 else member
        held = ({name for name in some if holds(path, name)} for some in weights)
        found.append(path if all(not some or own <= some for some in held) else "")
    return found


def find_home(flow: Flow, layer: Layer, member: str) -> str:
    """The member of a list that a layer is; nothing where a block around that holds the layer whole, and nothing else.

    So a norm and linear layers stand around a list of one block (U-Nets of films), before what that gives is added.
    """
    end = layer[-1].joints[-1].add
    before = (node for staging in layer for node in staging.nodes if node < end)
    if not member or all(holds(member, name) for name in gather_weights(flow, before)):
        return member
    block = find_block(flow, layer)
    return member if block is None or holds(member, block.path) else ""


def list_inner(layer: Layer) -> frozenset[int]:
    """The steps of what is added to the stream in a layer."""
    return frozenset[int]().union(*(one.region.inner for staging in layer for one in staging.branches))


def common_module(names: Collection[str]) -> str:
    """The path of the innermost module that holds all of some parameters."""
    paths = [name.split(".")[:-1] for name in names]
    return ".".join(list_common(paths))


def holds(module: str, name: str) -> bool:
    """Whether a module holds a parameter, or another module; none without a path does."""
    return bool(module) and (name == module or name.startswith(f"{module}."))


def find_block(flow: Flow, layer: Layer) -> Step | None:
    """The block that holds a whole layer and nothing else, and reads the stream first; None where there is none.

    A layer may join other rows to those of the stream before its first sum (OmDet); what only moves the stream may
    stand before the first (CPM-Ant), and what the first sum reads of it too stands before them all (Gemma's factor).
    """
    nodes = set().union(*(staging.nodes for staging in layer))
    first = layer[0].joints[0]
    shared = (node for node in flow.makers[first.add] if node in first.region.inner and node != first.region.end)
    begun = next(shared, None) or -1
    every = (node for staging in layer for one in staging.branches for node in one.region.inner if node > begun)
    inner = [node for node in every if flow.op(node) not in CARRYING]
    shape = flow.output(first.add).shape
    before = shape if first.stream is None else flow.output(first.stream).shape
    found: int | None = None
    for here in flow.parents(min(inner)):
        if does_more(flow, here, nodes):
            break
        given = next((record.shape for record in flow.steps[here].inputs), None)
        is_stream = given == before or is_moved(flow, here, first.stream)
        found = here if given == shape or (is_stream and first.add < flow.ends[here]) else found
    is_whole = found is not None and all(found < node < flow.ends[found] for node in inner)
    return flow.steps[found] if found is not None and is_whole else None


def is_moved(flow: Flow, block: int, stream: int | None) -> bool:
    """Whether a block is given a stream laid out in more or fewer axes: pairs, say; not one whose axes are swapped."""
    maker = next(iter(flow.makers[block]), None)
    if stream is None or maker is None or flow.carried_from(maker) != stream:
        return False
    given, whole = flow.steps[block].inputs[0].shape, flow.output(stream).shape
    return len(given) != len(whole) and prod(given) == prod(whole)


def does_more(flow: Flow, block: int, nodes: Collection[int]) -> bool:
    """Whether a block learned more than some steps did, or works out more, for itself or for what is outside of it."""
    learned, end = list_learned(flow), flow.ends[block]
    if any(node not in nodes for node in learned[bisect_right(learned, block) : bisect_left(learned, end)]):
        return True
    inside = {node for node in range(block + 1, end) if node not in nodes and flow.is_leaf(node)}
    return not all(flow.op(node) in UNCHANGING or is_aside(flow, node, nodes, inside) for node in inside)


def is_aside(flow: Flow, node: int, nodes: Collection[int], apart: Collection[int]) -> bool:
    """Whether a step that learned nothing leads nowhere but to others `apart`, or stands between two of a layer.

    So sizes are checked (DEIMv2), and a stream is kept within bounds before a norm (D-FINE). Nor does one that stacks
    what the layer made of the halves of a pair (EfficientLoFTR).
    """
    between = all(one in nodes for one in (*flow.makers[node], *flow.readers.get(node, (None,))))
    between |= flow.op(node) == "stack" and all(one in nodes for one in flow.makers[node])
    return between or all(one in apart for one in flow.ahead(node))


@once
def list_learned(flow: Flow) -> list[int]:
    """The innermost steps that learned more than to hand numbers on, in order."""
    leaves = (node for node in range(len(flow.steps)) if flow.is_leaf(node) and flow.op(node) not in UNCHANGING)
    return [node for node in leaves if flow.steps[node].is_learned]
