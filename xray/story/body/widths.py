"""Of layers how wide a row of the stream is, and on which axis it lies; what is worked out of it, and whose weights."""

from collections import Counter
from collections.abc import Collection, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, SUMS
from xray.ir.flow.weights import gather_weights
from xray.ir.trace import MADE_PARAMS, name_weights
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Branch
from xray.story.body.stages import Staging
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import is_linear
from xray.story.streams.scaled_streams import is_one_number


def shape_of(flow: Flow, layer: Sequence[Staging]) -> tuple[int, ...]:
    """What shape the stream has at a layer: as many places in all that are alike."""
    return flow.output(layer[0].joints[0].add).shape


def end_of(layer: Sequence[Staging]) -> int:
    """The step that ends a layer: its last sum, or the norm of that."""
    last = layer[-1].joints[-1].add
    return max([last, *(norm.end for norm in layer[-1].norms if norm.end > last)])


def width_of(flow: Flow, layer: Sequence[Staging]) -> int | None:
    """How wide the stream is behind a layer, be it made wider between its sums (Next-ViT); None if not known."""
    joint = layer[0].joints[0]
    if joint.mixing is not None:
        return flow.output(joint.mixing.gather).shape[-1]
    axis = find_width(flow, layer)
    first, last = shape_of(flow, layer), shape_of(flow, layer[-1:])
    if first[axis] in last:
        return first[axis]
    return last[axis] if len(last) == len(first) else None


def find_width(flow: Flow, layer: Sequence[Staging]) -> int:
    """Which axis of the stream is as wide as a row: as its layers make it, else as pictures and rows usually lie."""
    joint = layer[0].joints[0]
    if joint.mixing is not None:
        return -1
    axes = len(flow.output(joint.add).shape)
    last = layer[-1].joints[-1]  # it thinks about each place alone: where columns of places are multiplied, it tells
    is_row = axes == 3 and len(flow.output(last.region.end).shape) == 3
    found = find_channels(flow, last.region.end if is_row else joint.region.end)
    convolves = any(flow.op(node) in FINDINGS for one in layer for node in one.nodes)
    if found is not None or not convolves:
        return -1 if found is None else found
    return 1 if axes == 4 or (axes == 3 and is_channels_first(flow, layer)) else -1


def is_channels_first(flow: Flow, layer: Sequence[Staging]) -> bool:
    """Whether convolutions read the rows of a layer as they lie, and no other linear layer reads them."""
    nodes = {node for one in layer for node in one.nodes}
    shape = shape_of(flow, layer)
    read = [flow.steps[node].inputs[0].shape for node in nodes if flow.op(node) in FINDINGS]
    return shape in read and all(flow.op(node) in FINDINGS for node in nodes if is_linear(flow, node))


def list_works(flow: Flow, staging: Staging) -> frozenset[tuple[str, tuple[int, ...], int]]:
    """What the branches of a stage work out: each operation, with the shape of what it gives, and how often it does.

    Steps through which the stream goes to the sum too are none of a branch (numbers that scale a table of words), and
    the bias of a linear layer is part of it. What goes by chance is left out, and so is what multiplies by one number:
    of rows from beside, that may stand outside (NeoMME's, of which those of the first layer are its stream's).
    """
    branches = [one for one in staging.branches if not goes_by_chance(one.branch)]
    inner = frozenset[int]().union(*(one.region.inner for one in branches))
    ends = {flow.carried_from(joint.region.end) for joint in staging.joints}
    makers = {maker for joint in staging.joints for maker in flow.makers[joint.add]}
    sides = (maker for maker in makers if flow.carried_from(maker) not in ends)
    past = {*flow.behind(*sides, within=lambda one: one >= min(inner))} if inner else set[int]()
    found = (node for node in inner - past if flow.is_leaf(node) and flow.op(node) not in CARRYING | DROPOUTS)
    found = (node for node in found if flow.steps[node].outputs and not adds_one_row(flow, node))
    made = ((name_work(flow, node), flow.output(node).shape) for node in found if not is_one_number(flow, node))
    return frozenset((op, shape, count) for (op, shape), count in Counter(made).items())


def name_work(flow: Flow, node: int) -> str:
    """What a step works out: linear layers by one name, since how rows lie in memory tells which step torch takes."""
    return "linear" if is_linear(flow, node) else flow.op(node).rstrip("_")


def adds_one_row(flow: Flow, node: int) -> bool:
    """Whether a step adds one row to the rows of all places, be it laid out first (GPT-NeoX Japanese's last bias)."""
    if flow.op(node) not in SUMS:
        return False
    moves = [maker for maker in flow.makers[node] if maker is not None and flow.op(maker) in CARRYING]
    given = [*flow.steps[node].inputs, *(record for move in moves for record in flow.steps[move].inputs[:1])]
    return any(len(record.shape) == 1 for record in given)


def goes_by_chance(branch: Branch) -> bool:
    """Whether experts work in a branch, be it for queries (JetMoE): how many rows each gets is as chance has it."""
    return branch.part == "experts" or (isinstance(branch, Attention) and branch.query_experts is not None)


def learned_paths(flow: Flow, layer: Sequence[Staging], apart: Collection[int] = ()) -> frozenset[str]:
    """The names of the parameters that a layer's steps work with.

    Those of steps `apart` are left out, as what gives each layer its places (Grounding DINO). A step of which it is not
    known whose weights it works with is known by its id alone.
    """
    nodes = frozenset[int]().union(*(staging.nodes for staging in layer)).difference(apart)
    return frozenset(gather_weights(flow, nodes)) | list_loose(flow, layer)


def list_loose(flow: Flow, layer: Sequence[Staging]) -> frozenset[str]:
    """The ids of a layer's steps whose weights may be those of other layers, or may not: no name tells them apart.

    These read what was made of learned numbers of a block that holds several layers, or stand in a module that was made
    while the model ran, and has the path of its class.
    """
    stream = layer[0].joints[0].stream or 0
    nodes = (node for staging in layer for node in staging.nodes if flow.is_leaf(node))
    return frozenset(flow.steps[node].id for node in nodes if is_loose(flow, node, stream))


def is_loose(flow: Flow, node: int, stream: int) -> bool:
    """Whether no name tells the weights of a step from those of others, for a layer that begins with a stream."""
    step = flow.steps[node]
    if step.params:
        return any(MADE_PARAMS in flow.steps[one].settings for one in (node, *flow.parents(node)))
    holder = next((one for one in flow.parents(node) if flow.steps[one].module), -1)
    return holder < stream and any(one.role == "parameter" and one.weight is None for one in step.inputs)


def join_parts(held: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """The weights of layers; where those of one are a part of another's, those: what is worked out once is kept then.

    So the first of several turns makes keys and values for all (FlowFormer).
    """
    return [max((own for own in held if one <= own), key=len) if one else one for one in held]


def is_shared(held: Sequence[frozenset[str]]) -> bool | None:
    """Whether all layers use one set of weights; None where no learned step is a module."""
    if not held[0]:
        return None
    return all(one == held[0] for one in held)


def shares_some(held: Sequence[frozenset[str]]) -> bool:
    """Whether layers use some of the same weights, and each has others of its own beside them (Zamba 2)."""
    counts = Counter(path for one in held for path in one)
    return all(any(counts[path] > 1 for path in one) and any(counts[path] == 1 for path in one) for one in held)


def count_shared_sets(held: Sequence[frozenset[str]]) -> int | None:
    """How many sets of weights layers share of which each has others of its own; None where sets have some in common.

    So two blocks may serve layers in turn (Zamba 2 of 7 billion).
    """
    counts = Counter(path for one in held for path in one)
    sets = {frozenset(path for path in one if counts[path] > 1) for one in held}
    return len(sets) if sum(map(len, sets)) == len(frozenset[str]().union(*sets)) else None


def list_weight_sets(numbers: Sequence[int], held: Sequence[frozenset[str]]) -> tuple[tuple[int, ...], ...]:
    """The layers of some numbers that each set of weights serves; none where each serves one, or all are one."""
    sets = tuple(tuple(numbers[place] for place, one in enumerate(held) if one == own) for own in dict.fromkeys(held))
    return sets if 1 < len(sets) < len(held) else ()


def find_lender(
    flow: Flow, layers: Sequence[Sequence[Staging]], others: Sequence[Sequence[Sequence[Staging]]]
) -> int | None:
    """Which of some towers has layers that work, one by one, with the very weights of these; None if none has."""
    held = [learned_paths(flow, layer) for layer in layers]
    alike = (number for number, one in enumerate(others) if [learned_paths(flow, layer) for layer in one] == held)
    return next(alike, None) if all(held) else None


def list_working(flow: Flow, layers: Sequence[Sequence[Staging]]) -> dict[int, str]:
    """The steps of some layers that have parameters, each with the name by which these are known."""
    nodes = {node for layer in layers for staging in layer for node in staging.nodes if flow.is_leaf(node)}
    return {node: name_weights(flow.steps[node]) for node in nodes if flow.steps[node].params}


def brings_to_width(flow: Flow, stagings: Sequence[Staging]) -> bool:
    """Whether a chain begins with linear layers, and one beside them, that first bring rows to its width (TimesFM)."""
    beside = [flow.steps[node] for node in stagings[0].joints[0].past if is_linear(flow, node)]
    widens = any(step.inputs[0].shape[-1] != step.outputs[0].shape[-1] for step in beside)
    return widens and [one.stage.branches[0].part for one in stagings[:2]] == ["feed_forward", "attention"]


def count_learned(flow: Flow, staging: Staging, part: str | None = None) -> frozenset[tuple[str, int]]:
    """How often each learned operation stands in the branches of a stage, or in those of one kind; not in experts.

    So a convolution alone is none that goes on to a wider row and back (RepMixer of MobileCLIP), and an attention that
    chooses keys none that looks at those which an earlier layer chose (HY). Of experts some are idle, others elsewhere.
    """
    branches = [one for one in staging.branches if one.branch.part != "experts" and part in (None, one.branch.part)]
    learned = (node for one in branches for node in one.region.inner if flow.is_leaf(node) and flow.steps[node].params)
    return frozenset(Counter(map(flow.op, learned)).items())
