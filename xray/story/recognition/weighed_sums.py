"""Weighed sums: stream and branch each multiplied by a gate that both of them work out (Srivastava et al. 2015)."""

from collections.abc import Iterator
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SCALINGS, SUMS
from xray.story.recognition.between import find_region, is_linear

BENDS = frozenset({"sigmoid", "sigmoid_"})
MOST_STEPS = 16
"""Gates are worked out of what they weigh in no more steps than these."""


@dataclass(frozen=True)
class Weighing:
    """A reading of a weighed sum: `kept` made what is taken for the stream, `given` what is added to it.

    `nodes` are the steps by which both gates are worked out and multiplied in.
    """

    kept: int | None
    given: int
    nodes: frozenset[int]

    def list_learned(self, flow: Flow) -> list[int]:
        """The linear layers that make the gates."""
        return [node for node in sorted(self.nodes) if is_linear(flow, node)]


def list_weighings(flow: Flow, add: int) -> Iterator[Weighing]:
    """Both ways to read a sum of two products by gates that are worked out of both; nothing if a sum is another one."""
    products = flow.makers[add] if flow.op(add) in SUMS else ()
    if len(products) != 2:
        return
    halves = [split_product(flow, product) for product in products]
    for own, other in ((0, 1), (1, 0)):
        kept, given = halves[own], halves[other]
        if kept is None or given is None or given[0] is None or kept[0] == given[0]:
            continue
        gates = [find_region(flow, given[0], gate) for gate in (kept[1], given[1])]
        nodes = frozenset[int]().union(*(region.inner for region in gates if region is not None))
        nodes |= {product for product in products if product is not None}
        reads = kept[0] in {maker for node in nodes for maker in flow.makers[node]}
        if all(gates) and reads and len(nodes) <= MOST_STEPS and any(is_linear(flow, node) for node in nodes):
            yield Weighing(kept[0], given[0], nodes)


def split_product(flow: Flow, product: int | None) -> tuple[int | None, int] | None:
    """What a product weighs, and the step that made its gate by a sigmoid; None if it is no such product."""
    if product is None or flow.op(product) not in SCALINGS or len(flow.makers[product]) != 2:
        return None
    gates = [flow.carried_from(maker) for maker in flow.makers[product]]
    bent = [gate is not None and flow.op(gate) in BENDS for gate in gates]
    if bent.count(True) != 1:
        return None
    gate = flow.makers[product][bent.index(True)]
    return None if gate is None else (flow.makers[product][bent.index(False)], gate)
