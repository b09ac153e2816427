"""Sublayers and layers under canonical paths."""

from collections.abc import Sequence

from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import DROPOUTS, SHAPING
from xray.story.recognition.retold_attention import nodes_of, retell_attention
from xray.story.recognition.retold_moves import add_linear, flattening_moves
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.stacks import Layer, Stack
from xray.story.recognition.sublayers import FeedForward, Sublayer


def retell_layers(told: Retold, side: str, stack: Stack) -> None:
    """All layers of a stack."""
    spans = [layer_nodes(layer) for layer in stack.layers]
    for number, layer in enumerate(stack.layers):
        apart = [
            node for other, nodes in enumerate(spans) if abs(other - number) == 1 for node in (nodes[0], nodes[-1])
        ]
        if stack.final_norm is not None:
            apart.append(stack.final_norm.end)
        path = f"{side}.layers.{number}"
        told.open(path, spans[number], apart=apart)
        if stack.norm_first:
            told.norm_first.add(path)
        for one in layer:
            others = [node for other in layer if other is not one for node in sublayer_nodes(other)]
            retell_sublayer(told, path, one, others)


def layer_nodes(layer: Layer) -> list[int]:
    """All steps of a layer, in order."""
    return sorted({node for one in layer for node in sublayer_nodes(one)})


def sublayer_nodes(sublayer: Sublayer) -> list[int]:
    """All steps of a sublayer, in order."""
    part = sublayer.part
    inner = nodes_of(part) if isinstance(part, Site) else forward_nodes(part)
    norm = () if sublayer.norm is None else sublayer.norm.nodes
    return sorted({*inner, *sublayer.between, sublayer.add, *norm})


def forward_nodes(part: FeedForward) -> tuple[int, ...]:
    """All steps of a feed-forward, in order."""
    extra = [node for node in (part.gate, part.multiply) if node is not None]
    return tuple(sorted({part.expand, *part.activation, part.contract, *extra}))


def retell_sublayer(told: Retold, layer: str, sublayer: Sublayer, apart: Sequence[int]) -> None:
    """A sublayer: its norm, if that comes first, itself, its dropout, its sum, its norm."""
    flow, path = told.flow, f"{layer}.{sublayer.kind}"
    outside = [*apart, sublayer.add, *(() if sublayer.norm is None else sublayer.norm.nodes)]
    if sublayer.norm is not None and sublayer.norm_first:
        told.add(f"{path}_norm", sublayer.norm.nodes)
    trailing, rest = take_trailing(flow, sublayer.between)
    if isinstance(sublayer.part, Site):
        retell_attention(told, path, sublayer.part, trailing, outside)
    else:
        retell_forward(told, path, sublayer.part, trailing, outside)
    last = trailing[-1] if trailing else sublayer.last
    dropped = [node for node in rest if flow.op(node) in DROPOUTS]
    handed = [node for node in flow.handed.get(last, ()) if flow.op(node) in DROPOUTS]
    for node in (dropped or handed)[:1]:
        told.add(f"{path}_dropout", [node], owns=node in dropped)
    for node in (one for one in rest if one not in dropped):
        told.owners.setdefault(node, told.owners.get(last, ""))
    told.add(f"{path}_add", [sublayer.add])
    if sublayer.norm is not None and not sublayer.norm_first:
        told.add(f"{path}_norm", sublayer.norm.nodes)


def take_trailing(flow: Flow, between: Sequence[int]) -> tuple[list[int], list[int]]:
    """The moves and biases right behind a projection, and what follows them."""
    count = 0
    while count < len(between) and (flow.op(between[count]) in SHAPING or (flow.op(between[count]) in ("add", "add_"))):
        count += 1
    return list(between[:count]), list(between[count:])


def retell_forward(told: Retold, path: str, part: FeedForward, trailing: Sequence[int], apart: Sequence[int]) -> None:
    """The block of a feed-forward."""
    flow = told.flow
    told.open(path, forward_nodes(part), apart=apart)
    if part.gate is not None:
        add_linear(told, f"{path}.gate", part.gate, following_moves(flow, part.gate, part.activation))
    add_linear(told, f"{path}.expand", part.expand, following_moves(flow, part.expand, part.activation))
    flat = set(flattening_moves(flow, part.contract))
    bends = [
        node
        for node in part.activation
        if node not in told.owners and node not in flat and flow.op(node) not in DROPOUTS
    ]
    if bends:
        told.add(f"{path}.activation", bends)
    if part.multiply is not None:
        told.add(f"{path}.multiply", [part.multiply])
    last = part.multiply if part.multiply is not None else (bends[-1] if bends else part.expand)
    made = [node for node in part.activation if flow.op(node) in DROPOUTS]
    handed = [node for node in flow.handed.get(last, ()) if flow.op(node) in DROPOUTS]
    for node in (made or handed)[:1]:
        told.add(f"{path}.dropout", [node], owns=node in made)
    add_linear(told, f"{path}.contract", part.contract, trailing)


def following_moves(flow: Flow, projection: int, inner: Sequence[int]) -> list[int]:
    """The moves and the bias that still belong to a projection."""
    taken: list[int] = []
    here = projection
    while True:
        onward = [node for node in flow.readers.get(here, ()) if node in inner]
        if len(onward) != 1:
            return taken
        step = flow.steps[onward[0]]
        is_bias = (
            step.op in ("add", "add_")
            and len(step.inputs) == 2
            and (step.inputs[1].role == "parameter" or len(step.inputs[1].shape) == 1)
        )
        if not (step.op in SHAPING or is_bias):
            return taken
        taken.append(onward[0])
        here = onward[0]
