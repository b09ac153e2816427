"""How many parameters of experts a place passes by."""

from collections.abc import Mapping
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.records import TensorRecord
from xray.ir.trace import name_weights
from xray.story.anatomy.branches import Experts
from xray.story.experts.choice import find_choice, list_routers
from xray.story.experts.experts import group_by_parent
from xray.story.recognition.between import Region, projections_in


def count_idle(flow: Flow, region: Region, experts: Experts, unused: Mapping[str, int]) -> int | None:
    """How many parameters a place passes by: those of the experts that are not chosen for it. None if not known.

    Experts that no place chose are among what took no part, and taken off with it: they are not counted again.
    """
    nodes = region.inner
    choice = find_choice(flow, nodes)
    is_told = len(list_routers(flow, nodes)) <= 1 and not experts.handing_on
    if choice is None or not experts.experts or not experts.chosen or not is_told:
        return None
    idle = experts.experts - experts.chosen
    stacked = list_stacked(flow, region, experts.experts, choice[1])
    if stacked:
        return count_idle_of_stacks(flow, stacked, idle, experts.experts, choice[1])
    groups = list_groups(flow, region, choice[1])
    if any(block_of(flow, choice[1]) == block_of(flow, group[0]) for group in groups):
        return count_idle_of_lists(flow, groups[0], idle, experts.experts, unused) if len(groups) == 1 else None
    blocks = [flow.steps[flow.places[flow.steps[group[0]].parent or ""]] for group in groups]
    own = {block.params for block in blocks}
    if len(own) != 1:
        return None
    each = own.pop()
    if len({block.path for block in blocks}) > 1 or len(blocks) == 1:
        rooms = {block.path.rpartition(".")[0] for block in blocks}
        spared = sum(n == each and path.rpartition(".")[0] in rooms for path, n in unused.items())
        return (idle - spared) * each
    return None if each % experts.experts else idle * (each // experts.experts)  # one block holds all of them (DBRX)


def count_idle_of_lists(flow: Flow, group: list[int], idle: int, experts: int, unused: Mapping[str, int]) -> int | None:
    """The same where the block of the router holds lists with a linear layer of each expert: first ones, last ones."""
    layers = {flow.steps[node].path: flow.steps[node].params for node in group}
    lists = {path.rpartition(".")[0] for path in layers}
    spared = {path: params for path, params in unused.items() if path.rpartition(".")[0] in lists}
    passed_by = 0
    for one in lists:
        held = [params for path, params in (layers | spared).items() if path.rpartition(".")[0] == one]
        if len(held) != experts or len(set(held)) != 1:
            return None
        passed_by += idle * held[0]
    return passed_by - sum(spared.values())


def list_stacked(flow: Flow, region: Region, experts: int, router: int) -> dict[tuple[int, int], int]:
    """The stacks of all experts that a region reads, by step and number of the input: how large a part of each is."""
    return {
        (node, number): prod(record.shape[1:])
        for node in region.inner | region.beside
        if node != router
        for number, (record, maker) in enumerate(flow.given(node))
        if maker is None and record.role == "parameter" and is_stack(record, experts)
    }


def list_groups(flow: Flow, region: Region, router: int) -> list[list[int]]:
    """The linear layers of a region by the block that holds them, without the router."""
    return group_by_parent(flow, [node for node in projections_in(flow, region.inner) if node != router])


def name_held(flow: Flow, region: Region, experts: Experts) -> set[str]:
    """By what the weights of experts that work in a region are known, be they stacks or layers of each expert."""
    choice = find_choice(flow, region.inner)
    if choice is None:
        return set()
    stacked = list_stacked(flow, region, experts.experts or 0, choice[1])
    nodes = [node for node, _ in stacked] or [node for group in list_groups(flow, region, choice[1]) for node in group]
    return {name_weights(flow.steps[node]) for node in nodes}


def holds_choice(flow: Flow, region: Region) -> bool:
    """Whether some of as many weights as are chosen from work in a region, whatever it is else (JetMoe's attention)."""
    nodes = region.inner | region.beside
    chosen = {flow.steps[node].inputs[0].shape[-1] for node in nodes if flow.op(node) == "topk"}
    stacks = (record.shape for node in nodes for record in flow.steps[node].inputs if record.role == "parameter")
    return any(len(shape) >= 3 and shape[0] in chosen for shape in stacks)


def count_idle_of_stacks(
    flow: Flow, stacked: Mapping[tuple[int, int], int], idle: int, experts: int, router: int
) -> int | None:
    """The same where stacks hold all experts; one that is read anew for each expert is counted once (DBRX)."""
    each = sum(stacked.values())
    holders = {holder for node, _ in stacked if (holder := block_of(flow, node)) is not None}
    held = sum(flow.steps[holder].params for holder in holders)
    if not held or each * experts <= held:
        return idle * each
    return None if held % experts or block_of(flow, router) in holders else idle * (held // experts)


def block_of(flow: Flow, node: int) -> int | None:
    """The block that a step runs in."""
    return flow.places.get(flow.steps[node].parent or "")


def is_stack(record: TensorRecord, experts: int) -> bool:
    """Whether a tensor holds something for each expert."""
    return len(record.shape) >= 2 and record.shape[0] == experts
