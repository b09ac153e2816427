"""Halves of a pair that look at each other in turn: the second at what the first has become (EfficientLoFTR)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS
from xray.story.anatomy.attentions import ANOTHER_ROW, Attention
from xray.story.body.stages import Branching, Staging
from xray.story.charts.chart import Node
from xray.story.recognition.between import Region
from xray.story.sentences.of_parts import BOTH_STACKED, CHANGED_BEFORE


def find_turn(flow: Flow, region: Region) -> int | None:
    """The sum that changed the other half of a pair before, where a branch reads what that gave; None if none did.

    It stands beside the branch, and adds to another row of the same stream.
    """
    shape = flow.output(region.end).shape
    read = {flow.carried_from(maker) for node in region.inner for maker in flow.makers[node]}
    for node in sorted(region.beside & read):
        is_sum = flow.op(node) in SUMS and flow.is_leaf(node) and flow.output(node).shape == shape
        if is_sum and region.start in map(flow.carried_from, flow.makers[node]):
            return node
    return None


def tell_turn(flow: Flow, found: Branching, nodes: Sequence[Node], feet: list[str]) -> list[Node]:
    """The boxes, those of keys and values of which the other half of a pair was changed before led from none below."""
    is_pair = isinstance(found.branch, Attention) and found.branch.source == ANOTHER_ROW
    turn = find_turn(flow, found.region) if is_pair else None
    told = []
    for node in nodes:
        places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
        read = {flow.carried_from(maker) for place in places for maker in flow.makers[place]}
        if turn is not None and node.key in feet and turn in read and found.region.start not in read:
            feet.remove(node.key)
            node = replace(node, told=(*node.told, CHANGED_BEFORE))
        told.append(node)
    return told


def describe_turns(flow: Flow, staging: Staging) -> str:
    """That both halves of a pair went through a stage, one after the other, and stand together again behind it."""
    joint = staging.joints[-1]
    turn = find_turn(flow, joint.region)
    if turn is None:
        return ""
    stacked = any(
        flow.op(reader) == "stack" and {turn, joint.add} == set(flow.makers[reader])
        for reader in flow.readers.get(joint.add, ())
    )
    own = list_learned(flow, joint.region.inner)
    before = list_learned(flow, flow.behind(turn, within=joint.region.beside.__contains__))
    return BOTH_STACKED if stacked and own == before else ""


def list_learned(flow: Flow, nodes: Iterable[int]) -> set[str]:
    """The paths of the learned steps among some."""
    return {flow.steps[node].path for node in nodes if flow.is_leaf(node) and flow.steps[node].params}
