"""Heads that are chosen: for each place a router takes the experts that make its queries (JetMoe)."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.records import TensorRecord
from xray.story.branches.operands import Side
from xray.story.experts.choice import count_chosen, find_choice
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import Region, is_linear, width_out


def count_query_experts(flow: Flow, query: Side, region: Region) -> tuple[int, int] | None:
    """How many experts a router chooses that make the queries of a place, and among how many; None where none does."""
    if not query.nodes:
        return None
    return count_chosen_in(flow, set(flow.behind(max(query.nodes), within=region.inner.__contains__)))


def count_chosen_in(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """The same of steps that hold the router with its experts."""
    stacks = [stack for node in nodes if (stack := find_stack(flow, node)) is not None]
    choice = find_choice(flow, nodes) if len(stacks) > 1 else None
    if choice is None or any(stack.shape[0] != width_out(flow, choice[1]) for stack in stacks):
        return None
    return count_chosen(flow, choice[0]), width_out(flow, choice[1])


def find_stack(flow: Flow, node: int) -> TensorRecord | None:
    """The weights of all experts of which a linear layer multiplies by those of one; None where it is no such one."""
    if flow.op(node) != "linear" or not is_linear(flow, node):
        return None
    sources = (learned_source(flow, record, maker) for record, maker in flow.given(node) if maker is not None)
    return next((one for one in sources if one is not None and len(one.shape) == len(("experts", "out", "in"))), None)


def find_gathering(flow: Flow, node: int | None) -> int | None:
    """The step that has together what the layers of several experts made; None where a layer is none of theirs."""
    if node is None or find_stack(flow, node) is None:
        return None
    for reader in flow.readers.get(node, ()):
        makers = [maker for maker in flow.makers[reader] if maker is not None]
        if flow.op(reader) == "cat" and len(makers) > 1 and all(find_stack(flow, one) is not None for one in makers):
            return reader
    return None
