"""Loops: a state that is handed on from place to place, with what each turn does to it."""

from collections.abc import Collection, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SCALINGS, SUMS
from xray.ir.flow.projections import is_product
from xray.story.branches.states import longest_chain, reads_parts
from xray.story.charts.steps.drawn_steps import Group
from xray.story.recognition.between import is_linear


def read_loops(flow: Flow, nodes: Collection[int]) -> list[list[int]]:
    """The steps of each state that is handed on from place to place, in order; none where there is no such state.

    Where heads have states of their own, worked out one after the other, there is one of each (Zamba).
    """
    last = longest_chain(flow, nodes)
    if last is None or not reads_parts(flow, last, nodes):
        return []
    chain = [last]
    while True:
        before = next(
            (
                one
                for maker in flow.makers[chain[-1]]
                if maker is not None and maker in nodes and flow.op(maker) in SCALINGS
                for one in map(flow.carried_from, flow.makers[maker])
                if one is not None
                and one in nodes
                and flow.op(one) in SUMS
                and flow.output(one).shape == flow.output(last).shape
            ),
            None,
        )
        if before is None:
            break
        chain.append(before)
    first = min(chain)
    loop = [node for node in sorted(nodes) if first <= node <= last and not is_linear(flow, node)]
    others = read_loops(flow, [node for node in nodes if node < first])
    alike = [one for one in others if [flow.op(node) for node in one] == [flow.op(node) for node in loop]]
    return [*alike, loop]


def part_loop(flow: Flow, nodes: Collection[int], loop: list[int]) -> tuple[list[int], Group]:
    """A loop without the products by which each place reads its state, and these, in order (Mamba).

    Where each place reads it otherwise the loop is whole: all that its first and its last turn do is in it (xLSTM).
    """
    inside, last = set(loop), loop[-1]
    own = {last, *flow.behind(last, within=inside.__contains__)}
    others = [node for node in loop if node not in own]
    products = [node for node in others if is_product(flow, node)]
    final = [reader for reader in flow.readers.get(last, ()) if reader in nodes and is_product(flow, reader)]
    plain = all(flow.op(node) in CARRYING for node in others if node not in products)
    if not products or len(final) != 1 or not plain:
        return list_turns(flow, nodes, loop), ()
    return [node for node in loop if node in own], (*products, *final)


def list_turns(flow: Flow, nodes: Collection[int], loop: Sequence[int]) -> list[int]:
    """A loop with what its first turn does before the first sum, and its last behind the last: on the same lines."""
    lines = {flow.steps[node].location for node in loop} - {None}
    same = [node for node in loop if flow.steps[node].location == flow.steps[loop[-1]].location]
    turns = sum(flow.op(node) == flow.op(loop[-1]) for node in same)
    turn = (loop[-1] - loop[0]) // max(turns - 1, 1)
    near = range(loop[0] - turn, loop[-1] + turn)
    more = {node for node in nodes if node in near and flow.steps[node].location in lines and flow.is_leaf(node)}
    return sorted(more.union(loop))
