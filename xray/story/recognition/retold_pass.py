"""One pass retold: words and masks, both sides, the head, and what is done with its result."""

from collections.abc import Sequence
from typing import Literal

from xray.story.recognition.covering import find_common
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.entrance_steps import read_entrance
from xray.story.recognition.families import Sides
from xray.story.recognition.operation_kinds import CARRYING, LOOKUPS
from xray.story.recognition.retold_entrance import retell_entrance
from xray.story.recognition.retold_exit import Exit, read_exit, retell_choice, retell_exit
from xray.story.recognition.retold_masks import collect_facts, find_masks, retell_mask, retell_target_mask, with_facts
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.retold_sublayers import layer_nodes, retell_layers
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.stacks import Stack

Side = Literal["encoder", "decoder"]


def retell_pass(flow: Flow, sides: Sides) -> Retold:
    """One pass from the words to the head, the loss and the choice of a word."""
    told = Retold(flow)
    last = sides.decoder or sides.encoder
    found = Exit(None, (), None) if last is None else read_exit(flow, last)
    retell_words(told, sides)
    open_root(told, sides, found)
    masks = {
        name: find_masks(flow, stack)
        for name, stack in (("encoder", sides.encoder), ("decoder", sides.decoder))
        if stack
    }
    facts = collect_facts(flow)
    source = masks.get("encoder", {}).get("self") or masks.get("decoder", {}).get("cross")
    if sides.encoder is not None:
        if source is not None:
            retell_mask(told, "src_mask", with_facts(flow, source, facts))
        retell_side(told, "encoder", sides.encoder, apart_from(sides, found, "encoder"))
    if sides.decoder is not None:
        own, cross = masks["decoder"].get("self"), masks["decoder"].get("cross")
        if own is not None:
            retell_target_mask(told, with_facts(flow, own, facts), facts)
        if cross is not None and cross.maker is not None and not told.knows(cross.maker):
            retell_mask(told, "cross_mask", with_facts(flow, cross, facts))
        retell_side(told, "decoder", sides.decoder, apart_from(sides, found, "decoder"))
    retell_exit(told, found)
    if found.head is not None:
        retell_choice(told, found.head)
    return told


def apart_from(sides: Sides, found: Exit, side: Side) -> list[int]:
    """Steps that do not belong to a side: the other side's, and the head."""
    other = sides.decoder if side == "encoder" else sides.encoder
    places = [] if other is None else [other.layers[0][0].add, other.layers[-1][-1].add]
    return [*places, *(() if found.head is None else (found.head,)), *(() if found.loss is None else (found.loss,))]


def open_root(told: Retold, sides: Sides, found: Exit) -> None:
    """The whole model as a block, where a block of the recording's holds more than one side of it."""
    flow = told.flow
    stacks = [stack for stack in (sides.encoder, sides.decoder) if stack is not None]
    nodes = [node for stack in stacks for node in (stack.layers[0][0].add, stack.layers[-1][-1].add)]
    if found.head is not None:
        nodes.append(found.head)
    elif len(stacks) < 2:
        return
    block = find_common(flow, nodes, ())
    if block is not None:
        told.open("Transformer", nodes)


def retell_words(told: Retold, sides: Sides) -> None:
    """Where the words' ids come from, in a recording that begins before the model: made from text, and shifted."""
    flow = told.flow
    made: dict[str, int] = {}
    for side, stack in (("src", sides.encoder), ("tgt", sides.decoder)):
        entrance = None if stack is None else read_entrance(flow, stack.entry)
        maker = flow.makers[entrance.words[0]][0] if entrance is not None and entrance.words else None
        if maker is not None:
            made[side] = maker
    shift = made.get("tgt")
    is_shift = shift is not None and len(flow.steps[shift].outputs) > 1 and len(flow.steps[shift].inputs) == 1
    if is_shift and shift is not None and flow.makers[shift][0] is not None:
        made["tgt"] = flow.makers[shift][0] or 0
    for side, maker in made.items():
        if flow.op(maker) == "tokenize":
            told.add(f"tokenize.{side}", [maker])
    if is_shift and shift is not None:
        told.add("shift", [shift])


def retell_side(told: Retold, side: Side, stack: Stack, apart: Sequence[int]) -> None:
    """One side of the model: embedding, layers, last norm."""
    nodes = [node for layer in stack.layers for node in layer_nodes(layer)]
    entrance = read_entrance(told.flow, stack.entry)
    if entrance is not None:
        nodes = [*entrance.nodes, *nodes]
    if stack.final_norm is not None:
        nodes = [*nodes, *stack.final_norm.nodes]
    told.open(side, nodes, apart=apart)
    if entrance is not None:
        retell_entrance(told, side, stack, entrance)
    retell_relative_positions(told, side, stack)
    retell_layers(told, side, stack)
    if stack.final_norm is not None:
        told.add(f"{side}.norm", stack.final_norm.nodes)


def retell_relative_positions(told: Retold, side: Side, stack: Stack) -> None:
    """The table from which every layer's scores get a bias for how far apart two places are, looked up once."""
    flow = told.flow
    for site in stack.sites:
        for part in read_scored(flow, site.scored):
            maker = None if part.operand is None else flow.carried_from(part.operand.maker)
            if part.kind != "bias" or part.operand is None or maker is None or flow.op(maker) not in LOOKUPS:
                continue
            nodes = [maker]
            while nodes[-1] != part.operand.maker and len(nodes) < 6:
                nodes += [node for node in flow.readers.get(nodes[-1], ()) if flow.op(node) in CARRYING][:1] or [maker]
            told.add(f"{side}.relative_positions", nodes, core=[maker])
            return
