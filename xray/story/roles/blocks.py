"""Which block of a recording does just what some steps do, and which one holds them."""

from collections.abc import Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS, NORMS, PRODUCTS, SHAPING, SOFTMAXES, SUMS
from xray.ir.flow.projections import LINEARS

MOST_HELPERS = 6


TOLD = PRODUCTS | SOFTMAXES | LOOKUPS | NORMS | SUMS | LINEARS | SHAPING


def find_covering(flow: Flow, nodes: set[int]) -> int | None:
    """The outermost block that does just what the given steps do, but for what only helps them; None if none does."""
    found: int | None = None
    for parent in flow.parents(max(nodes)):
        if flow.ends[parent] - parent > 4 * len(nodes) + 40:
            break
        inside = range(parent + 1, flow.ends[parent])
        if all(node in inside for node in nodes):
            others = [place for place in inside if place not in nodes and makes_data(flow, place)]
            if len(others) > MOST_HELPERS or not all(only_helps(flow, place, inside) for place in others):
                break
            found = parent
    return found


def only_helps(flow: Flow, place: int, inside: range) -> bool:
    """Whether what a step makes stays inside a block, and the step is nothing that is told of itself."""
    step = flow.steps[place]
    if step.op in TOLD or step.params or any(record.role == "mask" for record in step.outputs):
        return False
    return all(reader in inside for reader in flow.readers.get(place, ()))


def find_common(flow: Flow, nodes: Sequence[int], apart: Sequence[int]) -> int | None:
    """The innermost original block that holds all of some steps, if it holds none of others."""
    first, last = min(nodes), max(nodes)
    here = next((block for block in flow.parents(first) if flow.ends[block] > last), None)
    if here is None or any(here < place < flow.ends[here] for place in apart):
        return None
    return here


def makes_data(flow: Flow, place: int) -> bool:
    """Whether a step makes a tensor of its own that something reads."""
    step = flow.steps[place]
    return any(record.source == step.id for record in step.outputs) and place in flow.readers
