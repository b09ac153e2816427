"""Heads that are chosen: for each place a router takes the experts that make its queries (JetMoe)."""

from xray.ir.flow.dataflow import Flow
from xray.ir.records import TensorRecord
from xray.story.branches.operands import Side
from xray.story.experts.choice import find_choice
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import Region, is_linear, width_out


def count_query_experts(flow: Flow, query: Side, region: Region) -> int | None:
    """Among how many experts a router chooses those that make the queries of a place; None where none does."""
    if not query.nodes:
        return None
    nodes = set(flow.behind(max(query.nodes), within=region.inner.__contains__))
    choice = find_choice(flow, nodes)
    experts = None if choice is None else width_out(flow, choice[1])
    stacks = [stack for node in nodes if (stack := find_stack(flow, node)) is not None]
    return experts if len(stacks) > 1 and all(stack.shape[0] == experts for stack in stacks) else None


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
