"""Masks under canonical paths, with all that the recording knows of them."""

from collections.abc import Mapping
from dataclasses import replace

from xray.ir.records import MaskFacts, TensorRecord
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.families import hides_future
from xray.story.recognition.operation_kinds import SHAPING
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.scored_parts import Operand, condition_of, list_behind, read_scored
from xray.story.recognition.stacks import Stack


def find_masks(flow: Flow, stack: Stack) -> Mapping[str, Operand]:
    """The masks of a stack's self- and cross-attentions."""
    found = {kind: find_mask_of(flow, stack, kind) for kind in ("self", "cross")}
    return {kind: mask for kind, mask in found.items() if mask is not None}


def find_mask_of(flow: Flow, stack: Stack, kind: str) -> Operand | None:
    """The first mask that the stack's attentions of a kind put on their scores."""
    for site in stack.sites:
        if site.kind == kind:
            for part in read_scored(flow, site.scored):
                if part.kind == "mask" and part.operand is not None:
                    return part.operand
    return None


def retell_mask(told: Retold, path: str, operand: Operand) -> None:
    """The step that made a mask; one that was given, or is only implied, is known by the step that reads it."""
    flow = told.flow
    if operand.maker is not None and operand.maker in told.owners:
        return
    nodes = [] if operand.maker is None else settle_nodes(flow, operand.maker)
    told.add(path, nodes or [reader_of(flow, operand)], owns=bool(nodes))


def settle_nodes(flow: Flow, maker: int) -> list[int]:
    """The step that made a mask, with the axes that were put in or out of it before."""
    nodes = [maker]
    while flow.op(nodes[0]) in SHAPING and flow.makers[nodes[0]] and len(nodes) < 4:
        before = flow.makers[nodes[0]][0]
        if before is None or len(flow.readers.get(before, ())) > 1:
            break
        nodes.insert(0, before)
    return nodes


def reader_of(flow: Flow, operand: Operand) -> int:
    """The first step that reads a tensor that no step made."""
    for place, step in enumerate(flow.steps):
        if operand.record in step.inputs and not flow.one_pass.blocks & {step.id}:
            return place
    return 0


def retell_target_mask(told: Retold, mask: Operand, facts: Mapping[str, MaskFacts]) -> None:
    """The decoder's own mask: padding and causal, where they were made apart, and both together."""
    flow = told.flow
    parts: list[tuple[str, Operand]] = []
    if mask.maker is not None and flow.op(mask.maker) in ("and", "logical_and", "bitwise_and", "mul", "add"):
        for record, maker in flow.given(mask.maker):
            part = with_facts(flow, Operand(record, maker), facts)
            kind = part.record.mask.kind if part.record.mask is not None else guess_kind(flow, maker)
            if kind in ("padding", "causal") and maker is not None:
                parts.append((kind, part))
    if len(parts) > 1 and mask.maker is not None:
        nodes = [mask.maker, *(part.maker for _, part in parts if part.maker is not None)]
        told.open("tgt_mask", nodes, exact=True)
        for kind, part in parts:
            retell_mask(told, f"tgt_mask.{kind}", part)
    retell_mask(told, "tgt_mask.combine", mask)


def guess_kind(flow: Flow, maker: int | None) -> str:
    """What a mask of which no cell was seen hides, by how it was made; nothing where that is not plain."""
    behind = list_behind(flow, maker)
    if any(hides_future(flow, node) for node in behind):
        return "causal"
    given = any(before is None and record.role == "ids" for node in behind for record, before in flow.given(node))
    return "padding" if given else ""


def collect_facts(flow: Flow) -> Mapping[str, MaskFacts]:
    """What is known of each mask, by the step that made it."""
    found: dict[str, MaskFacts] = {}
    for step in flow.steps:
        for record in (*step.inputs, *step.outputs):
            if record.mask is not None and record.source is not None:
                found.setdefault(record.source, record.mask)
    return found


def with_facts(flow: Flow, operand: Operand, facts: Mapping[str, MaskFacts]) -> Operand:
    """The mask with what another step knew of it; the one that it was made from, if something is known of that."""
    for _ in range(4):
        condition = None if operand.maker is None else condition_of(flow, operand.maker)
        if condition is None or (condition.record.mask is None and (condition.record.source or "") not in facts):
            break
        operand = condition
    record: TensorRecord = operand.record
    known = facts.get(record.source or "")
    return Operand(replace(record, mask=known), operand.maker) if record.mask is None and known else operand
