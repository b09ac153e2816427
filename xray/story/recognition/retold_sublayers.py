"""Sublayers and layers under canonical paths."""

from collections.abc import Sequence

from xray.ir.trace import Setting
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.norms import Norm, find_norm
from xray.story.recognition.operation_kinds import DROPOUTS, SCALINGS, SHAPING
from xray.story.recognition.retold_attention import nodes_of, retell_attention
from xray.story.recognition.retold_moves import add_linear, flattening_moves
from xray.story.recognition.retold_steps import Block, Named, Retold
from xray.story.recognition.stacks import Layer, Stack
from xray.story.recognition.sublayers import FeedForward, Sublayer

BETWEEN = "before the sum"


def retell_layers(told: Retold, side: str, stack: Stack, inside: Block, read: Sequence[Named]) -> None:
    """All layers of a stack; `read` is what every one of them is given beside the stream: memory and masks."""
    spans = [layer_nodes(layer) for layer in stack.layers]
    for number, layer in enumerate(stack.layers):
        apart = [
            node for other, nodes in enumerate(spans) if abs(other - number) == 1 for node in (nodes[0], nodes[-1])
        ]
        if stack.final_norm is not None:
            apart.append(stack.final_norm.end)
        path = f"{side}.layers.{number}"
        first = layer[0]
        block = told.open(path, f"{side}_layer", spans[number], inside, apart=apart)
        given = told.flow.steps[first.add].inputs
        makers = told.flow.makers[first.add]
        place = makers.index(first.stream) if first.stream in makers else 0
        entry: list[Named] = [("x", given[place], first.stream)]
        for one in layer:
            retell_sublayer(
                told, path, one, block, [node for other in layer if other is not one for node in sublayer_nodes(other)]
            )
        told.close(block, [*entry, *read], {"norm_first": stack.norm_first})


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


def retell_sublayer(told: Retold, layer: str, sublayer: Sublayer, block: Block, apart: Sequence[int]) -> None:
    """A sublayer: its norm, if that comes first, itself, its dropout, its sum, its norm."""
    flow, path = told.flow, f"{layer}.{sublayer.kind}"
    outside = [*apart, sublayer.add, *(() if sublayer.norm is None else sublayer.norm.nodes)]
    if sublayer.norm is not None and sublayer.norm_first:
        add_norm(told, f"{path}_norm", sublayer.norm, block)
    trailing, rest = take_trailing(flow, sublayer.between)
    if isinstance(sublayer.part, Site):
        retell_attention(told, path, sublayer.part, trailing, block, outside)
    else:
        retell_forward(told, path, sublayer.part, trailing, block, outside)
    last = trailing[-1] if trailing else sublayer.last
    dropped = [node for node in rest if flow.op(node) in DROPOUTS]
    handed = [node for node in flow.handed.get(last, ()) if flow.op(node) in DROPOUTS]
    for node in (dropped or handed)[:1]:
        told.add(
            f"{path}_dropout",
            "dropout",
            [node],
            [("input", flow.output(last), last)],
            [flow.output(node)],
            inside=block,
            owns=node in dropped,
        )
        if node not in dropped:
            told.hand_on()
    for node in (one for one in rest if one not in dropped):
        told.owners.setdefault(node, told.owners.get(last, ""))
    stream = [(record, maker) for record, maker in flow.given(sublayer.add)]
    place = next((place for place, (_, maker) in enumerate(stream) if maker == sublayer.stream), 0)
    given: list[Named] = [("x", *stream[place]), ("other", *stream[1 - place])]
    settings = {**flow.steps[sublayer.add].settings, **tell_between(flow, rest)}
    output = flow.output(sublayer.add)
    told.add(f"{path}_add", "add", [sublayer.add], given, [output], inside=block, settings=settings)
    if sublayer.norm is not None and not sublayer.norm_first:
        add_norm(told, f"{path}_norm", sublayer.norm, block)


def tell_between(flow: Flow, rest: Sequence[int]) -> dict[str, Setting]:
    """What else was done to a sublayer's result before its sum, as a setting of that; empty where it was nothing."""
    if any(find_norm(flow, node) is not None for node in rest):
        return {BETWEEN: "norm"}
    return {BETWEEN: "scale"} if any(flow.op(node) in SCALINGS for node in rest) else {}


def take_trailing(flow: Flow, between: Sequence[int]) -> tuple[list[int], list[int]]:
    """The moves and biases right behind a projection, and what follows them."""
    count = 0
    while count < len(between) and (flow.op(between[count]) in SHAPING or (flow.op(between[count]) in ("add", "add_"))):
        count += 1
    return list(between[:count]), list(between[count:])


def add_norm(told: Retold, path: str, norm: Norm, block: Block | None) -> None:
    """A normalisation as one step, however many it was."""
    flow = told.flow
    entry = next(
        (
            record
            for node in norm.nodes
            for record, maker in flow.given(node)
            if maker == norm.origin and record.role != "parameter" and len(record.shape) > 1
        ),
        flow.output(norm.end),
    )
    told.add(
        path,
        "layer_norm" if norm.centred else "rms_norm",
        norm.nodes,
        [("input", entry, norm.origin)],
        [flow.output(norm.end)],
        inside=block,
    )


def retell_forward(
    told: Retold, path: str, part: FeedForward, trailing: Sequence[int], inside: Block, apart: Sequence[int]
) -> None:
    """The block of a feed-forward."""
    flow = told.flow
    block = told.open(path, "feed_forward", forward_nodes(part), inside, apart=apart)
    if part.gate is not None:
        add_linear(told, f"{path}.gate", part.gate, following_moves(flow, part.gate, part.activation), block)
    add_linear(told, f"{path}.expand", part.expand, following_moves(flow, part.expand, part.activation), block)
    expand = next(
        step for step in reversed(told.steps) if step.path == f"{path}.{'gate' if part.gate is not None else 'expand'}"
    )
    flat = set(flattening_moves(flow, part.contract))
    bends = [
        node
        for node in part.activation
        if node not in told.owners and node not in flat and flow.op(node) not in DROPOUTS
    ]
    if bends:
        source = part.gate if part.gate is not None else part.expand
        moves = following_moves(flow, source, part.activation)
        last = moves[-1] if moves else source
        told.add(
            f"{path}.activation",
            name_activation(told, bends),
            bends,
            [("input", flow.output(last), last)],
            [flow.output(bends[-1])],
            inside=block,
            params=None,
        )
    if part.multiply is not None:
        given = [
            (name, record, maker)
            for name, (record, maker) in zip(("x", "other"), flow.given(part.multiply), strict=False)
        ]
        told.add(
            f"{path}.multiply", "mul", [part.multiply], given, [flow.output(part.multiply)], inside=block, params=0
        )
    add_dropout(told, path, part, bends, block)
    add_linear(told, f"{path}.contract", part.contract, trailing, block)
    told.close(block, [("x", expand.inputs[0], None)], known=expand.inputs[0].source)


def add_dropout(told: Retold, path: str, part: FeedForward, bends: list[int], block: Block) -> None:
    """The dropout between both projections."""
    flow = told.flow
    last = part.multiply if part.multiply is not None else (bends[-1] if bends else part.expand)
    made = [node for node in part.activation if flow.op(node) in DROPOUTS]
    handed = [node for node in flow.handed.get(last, ()) if flow.op(node) in DROPOUTS]
    for node in (made or handed)[:1]:
        told.add(
            f"{path}.dropout",
            "dropout",
            [node],
            [("input", flow.output(last), last)],
            [flow.output(node)],
            inside=block,
            owns=node in made,
        )
        if node not in made:
            told.hand_on()


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


def name_activation(told: Retold, bends: Sequence[int]) -> str:
    """The activation in one word, by what it computes."""
    ops = {told.flow.op(node).rstrip("_") for node in bends}
    for word in ("gelu", "silu", "relu", "elu", "mish", "leaky_relu", "hardswish", "softplus"):
        if word in ops:
            return word
    if "erf" in ops or ("tanh" in ops and "pow" in ops):
        return "gelu"
    if "sigmoid" in ops and ops & {"mul", "multiply"}:
        return "silu"
    if len(bends) == 1:
        return told.flow.op(bends[0])
    return next((word for word in ("tanh", "sigmoid") if word in ops), told.flow.op(bends[-1]))
