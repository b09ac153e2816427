"""The roles of the steps that make masks and biases for the scores."""

from collections.abc import Collection, Mapping

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS, SHAPING
from xray.ir.flow.remembering import once
from xray.ir.records import MaskFacts
from xray.story.branches.scored.biases import counts_within_a_kind
from xray.story.branches.scored.hiding import hides_future
from xray.story.facts.mask_names import ALONG, BACK, BLOCKWISE, BOTH_SIDES, ITSELF, name_mask
from xray.story.recognition.addends import condition_of
from xray.story.recognition.score_operands import Operand
from xray.story.recognition.scored_parts import read_scored
from xray.story.roles.giving import Given

WORDS = {
    "padding": "padding mask",
    "causal": "causal mask: no place sees the future",
    "padding+causal": "mask: padding, and the future",
    BACK: "mask: the future, and what is too far back",
    BOTH_SIDES: "mask: what is too far away",
    ITSELF: "mask: all but each place itself",
    BLOCKWISE: "mask: all but its own block, and blocks before",
    ALONG: "mask: all but a stretch that moves along with each place",
}
JOINING = frozenset({"and", "logical_and", "bitwise_and", "mul", "add"})


def give_masks(given: Given, sites: Collection[Site]) -> None:
    """The steps that made what hides scores, and what is added to them for places."""
    flow = given.flow
    facts = collect_facts(flow)
    for site in sites:
        for part in read_scored(flow, site.scored):
            if part.operand is None or part.operand.maker is None:
                continue
            if part.kind == "mask":
                give_mask(given, part.operand, facts)
            elif (table := flow.carried_from(part.operand.maker)) is not None and flow.op(table) in LOOKUPS:
                kinds = ", or two kinds of places" * counts_within_a_kind(flow, table)
                is_known = flow.steps[table].settings.get("apart") or kinds
                told = f"relative positions: a bias for each distance{kinds}" if is_known else "a learned bias"
                given.part(list_way(flow, table, part.operand.maker), told, table)


def list_way(flow: Flow, start: int, end: int) -> list[int]:
    """The moves from one step to another, that first."""
    found = [end]
    while found[0] != start and (maker := flow.makers[found[0]][0]) is not None:
        found.insert(0, maker)
    return found


def give_mask(given: Given, operand: Operand, facts: Mapping[str, MaskFacts]) -> None:
    """A mask, and those that it was put together from."""
    flow = given.flow
    operand = settle(flow, operand, facts)
    maker = operand.maker
    if maker is None:
        return
    if flow.op(maker) in JOINING:
        parts = [Operand(record, one) for record, one in flow.given(maker) if one is not None]
        known = [(part, words) for part in parts if (words := describe_mask(flow, part, facts))]
        if len(known) > 1:
            given.block([maker, *(part.maker for part, _ in known if part.maker is not None)], "mask")
            for part, words in known:
                given.part(settle_nodes(flow, part.maker or 0), words)
    given.part(settle_nodes(flow, maker), describe_mask(flow, operand, facts) or "mask")


def describe_mask(flow: Flow, operand: Operand, facts: Mapping[str, MaskFacts]) -> str:
    """What a mask hides, by its cells or by how it was made; empty where that is not plain."""
    operand = settle(flow, operand, facts)
    known = operand.record.mask or facts.get(operand.record.source or "")
    if known is not None:
        return WORDS.get(name_mask(known), "mask")
    return WORDS["causal"] if hides_future(flow, operand.record, operand.maker) else ""


@once
def collect_facts(flow: Flow) -> Mapping[str, MaskFacts]:
    """What is known of each mask, by the step that made it."""
    found: dict[str, MaskFacts] = {}
    for step in flow.steps:
        for record in (*step.inputs, *step.outputs):
            if record.mask is not None and record.source is not None:
                found.setdefault(record.source, record.mask)
    return found


def settle(flow: Flow, operand: Operand, facts: Mapping[str, MaskFacts]) -> Operand:
    """The mask that another one was made from in one step, as long as something is known of it."""
    for _ in range(4):
        condition = None if operand.maker is None else condition_of(flow, operand.maker)
        if condition is None or (condition.record.mask is None and (condition.record.source or "") not in facts):
            break
        operand = condition
    return operand


def settle_nodes(flow: Flow, maker: int) -> list[int]:
    """The step that made a mask, with the axes that were put in or out of it before."""
    nodes = [maker]
    while flow.op(nodes[0]) in SHAPING and flow.makers[nodes[0]] and len(nodes) < 4:
        before = flow.makers[nodes[0]][0]
        if before is None or len(flow.readers.get(before, ())) > 1:
            break
        nodes.insert(0, before)
    return nodes
