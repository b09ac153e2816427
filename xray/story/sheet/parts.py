"""The steps of a stage by what they are parts of: branches with their norms, what stands beside, what is in common."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, REPEATS, SCALINGS, SUMS
from xray.ir.flow.remembering import once_for
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.anatomy.attentions import Attention, DeformableAttention
from xray.story.anatomy.branches import Branch
from xray.story.body.stages import Branching, Staging
from xray.story.body.towers import Towering
from xray.story.branches.convolutions import list_other_way
from xray.story.branches.operands.sides import read_sides
from xray.story.charts.chart import Chart
from xray.story.charts.stage_names import name_branch
from xray.story.passages.learned_steps import holds_learned
from xray.story.recognition.between import Region, list_reading_data, weights_of

COMMON, AROUND = "common norms", "around sublayers"
"""What is learned around several sublayers of a stage, and is no single one's."""

MOVING = CARRYING | REPEATS


def list_parts(flow: Flow, staging: Staging) -> list[tuple[str, set[int]]]:
    """The steps of a stage by branch, each with its norms and what else is learned around it alone, as in its panel.

    What stands around several branches comes last.
    """
    again = list_run_again(flow, staging)
    branches, others = split_nodes(flow, staging)
    branches, others = ([(name, nodes - again) for name, nodes in some] for some in (branches, others))
    for one, (_, nodes) in zip(staging.branches, branches, strict=True):
        nodes |= list_scaling(flow, one, staging)
    held = again.union(*(nodes for _, nodes in (*branches, *others)))
    common: list[tuple[str, set[int]]] = []
    for kind, nodes in list_around(flow, staging, held):
        met = list_met(flow, nodes, staging.nodes - held, held)
        own = [inner for _, inner in branches if len(branches) == 1 or not met.isdisjoint(inner)]
        if len(own) == 1:
            own[0].update(nodes)
        else:
            common.append((kind, nodes))
    return [*branches, *others, *common]


def list_scaling(flow: Flow, one: Branching, staging: Staging) -> frozenset[int]:
    """The step that alone reads what a branch gives, and multiplies it by learned numbers, if one does (EdgeNeXt).

    With the step that adds learned numbers then, if one does (MobileBERT).
    """
    found: list[int] = []
    for kinds in (SCALINGS, SUMS):
        readers = flow.leaf_readers(found[-1] if found else one.region.end)
        if len(readers) != 1 or flow.op(readers[0]) not in kinds or not holds_learned(flow, readers[0]):
            break
        found += readers
    return frozenset[int]().union(*(joint.region.inner for joint in staging.joints)).intersection(found)


def list_met(flow: Flow, nodes: Collection[int], around: Collection[int], held: Collection[int]) -> set[int]:
    """Of what sublayers hold the first steps that read what some around them give; else the last that gave it them."""
    ahead = flow.ahead(*nodes, within=lambda one: one in around)
    behind = flow.behind(*nodes, within=lambda one: one in around)
    read = {reader for one in ahead for reader in flow.readers.get(one, ()) if reader in held}
    return read or {maker for one in behind for maker in flow.makers[one] if maker is not None and maker in held}


def list_run_again(flow: Flow, staging: Staging) -> set[int]:
    """The steps that stand in several sublayers, and run again in one alone, which counts them (EfficientLoFTR).

    The second of a pair looks at what the first has become, so all that was done to the first is behind it too.
    """
    times = Counter(node for one in staging.branches for node in one.region.inner | one.region.beside)
    apart = {flow.steps[node].path for node, count in times.items() if count == 1 and flow.steps[node].params}
    return {node for node, count in times.items() if count > 1 and flow.steps[node].path in apart}


def split_nodes(flow: Flow, staging: Staging) -> tuple[list[tuple[str, set[int]]], list[tuple[str, set[int]]]]:
    """A stage's steps by branch, and those beside branches; what two side by side begin with, a norm, is in neither.

    A linear layer that makes queries, keys or values is the attention's, be it that a convolution beside it reads these
    too (Fun-ASR).
    """
    mixed = {node for joint in staging.joints if joint.mixing is not None for node in joint.mixing.nodes}
    branches: list[tuple[str, set[int]]] = []
    others = [("mixing", mixed)] if mixed else []
    gates = {node for joint in staging.joints if joint.weighing is not None for node in joint.weighing.nodes}
    others += [("gates", gates)] if gates else []
    others += [("rows beside", set(staging.added.nodes))] if staging.added is not None else []
    apart = staging.branches if staging.stage.parallel else ()
    inner = [one.region.inner for one in apart]
    common = {node for nodes in inner for node in nodes if all(node in other for other in inner)}
    common -= {node for one in apart for node in list_operand_layers(flow, one)}
    held = Counter(node for one in staging.branches for node in one.region.beside)
    several = {node for node, count in held.items() if count > 1} - list_reading_data(flow)  # learned, as tables are
    read = [list_read_beside(flow, one.region) for one in staging.branches]
    for one in staging.branches:
        name = name_branch(leave_places(one.branch))
        name = "DEFORMABLE ATTENTION" if isinstance(one.branch, DeformableAttention) else name
        other = list_other_way(flow, one.region, one.site) if one.site is not None else frozenset[int]()
        theirs = {node for beside in apart if beside is not one for node in list_operand_layers(flow, beside)}
        nodes = one.region.inner | one.region.beside.difference(several, *read) | list_read_beside(flow, one.region)
        branches.append((name, set(nodes) - common - theirs - mixed - gates - other))
        others += [("CONVOLUTION BESIDE ATTENTION", set(other))] if other else []
    others += [("other rows", set(staging.rejoined.nodes))] if staging.rejoined is not None else []
    return branches, others


def leave_places(branch: Branch) -> Branch:
    """A branch; of an attention in windows or pieces, or of pooled places, without how many see each other there."""
    if not isinstance(branch, Attention) or not (branch.window or branch.pooled or branch.pieces):
        return branch
    return replace(branch, window=None, pooled=None, pieces=None, rolled=None)


def list_read_beside(flow: Flow, region: Region) -> frozenset[int]:
    """The steps beside the way of a branch that it reads itself; another one behind it in a block may read the rest."""
    way = region.inner | region.beside
    return region.beside.intersection(flow.behind(*region.inner, within=way.__contains__))


def list_operand_layers(flow: Flow, one: Branching) -> list[int]:
    """The linear layers of a branch whose numbers are all queries, keys or values of its attention."""
    if one.site is None or not isinstance(one.branch, Attention):
        return []
    made = Counter[int]()
    for side in read_sides(flow, one.site, one.region):
        if side.is_own and side.last is not None:
            made[side.last] += prod(side.end.shape)
    return [node for node, count in made.items() if node in one.region.inner and count >= prod(flow.output(node).shape)]


def list_around(flow: Flow, staging: Staging, held: Collection[int]) -> list[tuple[str, set[int]]]:
    """The norms of a stage that stand in none of its branches, and what else is learned around these."""
    norms: list[set[int]] = []
    for norm in staging.norms:
        nodes = set(norm.nodes).difference(held)
        same = [one for one in norms if not one.isdisjoint(nodes)]  # what two read apart is normed once
        norms = [*(one for one in norms if one not in same), nodes.union(*same)]
    regions = [joint.region for joint in staging.joints]
    inner = set[int]().union(staging.past, staging.behind, *(one.inner | one.beside for one in regions))
    left = inner.difference(held, *norms)
    apart = {*staging.nodes, *held}
    parts = [(COMMON, nodes) for nodes in norms] + [(AROUND, left)]
    return [(kind, nodes) for kind, nodes in parts if weights_of(flow, nodes, apart)]


def list_serving(flow: Flow, layer: Sequence[Staging]) -> set[int]:
    """The steps beside a sublayer that work with parameters for another one of the layer too (MiniMax H3's scales).

    They are no single one's.
    """
    ways = [{node for joint in one.joints for node in (*joint.region.inner, joint.add)} for one in layer]
    inner = set[int]().union(*ways)
    first, last = min(node for one in layer for node in one.nodes), max(inner)
    found = set[int]()
    for staging, way in zip(layer, ways, strict=True):
        beside = {node for joint in staging.joints for node in joint.region.beside} - inner
        for node in (one for one in beside if flow.steps[one].params and flow.is_leaf(one)):
            made = flow.ahead(node, within=lambda one: first <= one <= last and one not in inner)
            readers = {reader for one in made for reader in flow.readers.get(one, ())}
            found |= set() if readers.isdisjoint(inner - way) else {node}
    return found


def find_entering(flow: Flow, staging: Staging, chart: Chart, *, is_open: bool) -> int | None:
    """The step that made the stream that a stage begins with, where that was recorded.

    What the first box reads tells it, but where others are put beside the stream first, or added and the sum behind the
    stage reads the stream alone, where it becomes shorter or wider, and where the stage is not `is_open`: its one box
    stands for what leaves it. The stream may be several rows made of one (DeepSeek-V4).
    """
    first = staging.joints[0]
    if staging.added is not None:
        return staging.added.stream
    if first.past:
        return first.stream
    if is_open or first.stream is None:
        _, read = find_read(chart)
        if read is None or read is chart.nodes[-1].record:
            return first.stream
        made = flow.places.get(read.source or "")
        added = {flow.carried_from(maker, MOVING) for maker in flow.makers[first.add]}
        stream = None if first.stream is None else flow.carried_from(first.stream, MOVING)
        return first.stream if flow.carried_from(made, MOVING) not in added and stream in added - {None} else made
    begun, shape = flow.carried_from(first.stream, MOVING), flow.output(first.add).shape
    later = sorted(node for node in {first.stream, *staging.nodes} if first.stream <= node < first.add)
    moved = [node for node in later if flow.carried_from(node, MOVING) == begun and flow.output(node).shape == shape]
    return next((node for node in moved if not {*moved}.issuperset(flow.leaf_readers(node))), first.stream)


def find_read(chart: Chart) -> tuple[Step, TensorRecord | None]:
    """The step of the first box of a sublayer that reads the stream, and what it reads; else what leaves the sublayer.

    The box may hold several steps, as a norm does: what one of them makes is not the stream (x-transformers).
    """
    node = chart.node(chart.feet[0]) if chart.feet else chart.nodes[0]
    own, record = {step.id for step in node.steps}, chart.nodes[-1].record
    steps = node.steps or chart.nodes[-1].steps[:1]
    alike = ((step, one) for step in reversed(steps) for one in step.inputs if record and one.shape == record.shape)
    return next(((step, one) for step, one in alike if one.source not in own), (steps[-1], record))


@once_for
def list_learned_for_many(flow: Flow, towering: Towering) -> frozenset[int]:
    """The steps that read learned numbers of no module for several of a tower's layers, and what these are till then.

    So a row is added to the places of each map, and all layers of Grounding DINO's encoder read what these are then.
    What makes something else of them for one layer alone is that layer's (Conditional DETR).
    """
    stagings = [staging for layer in towering.layers for staging in layer]
    inner = frozenset[int]().union(*(joint.region.inner for staging in stagings for joint in staging.joints))
    data = list_reading_data(flow) | inner  # be it that no data has come to a layer so far (MaskFormer's first one)
    layers = [frozenset[int]().union(*(staging.nodes for staging in layer)) for layer in towering.layers]
    starts = [
        place
        for place, step in enumerate(flow.steps)
        if flow.is_leaf(place) and not step.params and place not in data and step.is_given_weights
    ]
    met: dict[int, frozenset[int]] = {}
    for node in sorted(flow.ahead(*starts, within=lambda one: one not in data), reverse=True):  # readers stand behind
        readers = flow.readers.get(node, ())
        own = {number for number, layer in enumerate(layers) if not layer.isdisjoint(data.intersection(readers))}
        met[node] = frozenset(own).union(*(met[reader] for reader in readers if reader not in data))
    return frozenset(node for node, reached in met.items() if len(reached) > 1)
