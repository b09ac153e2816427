"""Attention without a softmax: a curve bends the products of queries and keys, and values are weighed by what it gives.

So it is in YOSO (Zeng et al. 2021), where the angle between two says how often their hashes are alike, and where a
sigmoid or a ReLU stands in place of the softmax.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from xray.ir.flow.attention_sites import FARTHEST, is_self, seek_output
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operand_ways import Way, find_way
from xray.ir.flow.operation_kinds import CARRYING, CURVES, DIFFERENCES, DROPOUTS, MASKINGS, SCALINGS, SUMS, TIMES
from xray.ir.flow.projections import is_product
from xray.ir.records import TensorRecord
from xray.story.recognition.values.known_values import values_of

BENDS = CURVES | frozenset(["acos", "arccos", "exp", "pow", "pow_", "cos", "softplus"])
STEPS = CARRYING | DROPOUTS | SCALINGS | SUMS | DIFFERENCES | MASKINGS | BENDS | {"rsub", "neg", "clamp", "clamp_"}
"""What may stand between the scores and the weighted sum."""
WEIGHING = ("matmul", "bmm")
FILLS = ("masked_fill", "masked_fill_")
WHOLE = frozenset({"int", "long"})


@dataclass(frozen=True)
class CurvedSite:
    """One such attention: its steps by their places in the pass.

    `curve` are the steps from the scores to the weights, without the scores, and `masks` those of them that hide some.
    """

    scores: int
    curve: tuple[int, ...]
    masks: tuple[int, ...]
    weighted_sum: int
    query: Way
    key: Way
    value: Way
    concat: tuple[int, ...]
    output: int


def find_curved(flow: Flow, nodes: Collection[int]) -> CurvedSite | None:
    """The first such attention among some steps; None if none is proven."""
    return next(find_all_curved(flow, nodes), None)


def find_all_curved(flow: Flow, nodes: Collection[int]) -> Iterator[CurvedSite]:
    """Every such attention among some steps."""
    for node in sorted(nodes):
        if flow.op(node) not in WEIGHING or not is_product(flow, node):
            continue
        curve = climb(flow, flow.makers[node][-2])
        if not curve or not is_product(flow, curve[0]) or flow.op(curve[0]) not in WEIGHING:
            continue
        site = read_curved(flow, node, curve[0], tuple(curve[1:]))
        if site is not None and {site.scores, site.output} <= set(nodes):
            yield site


def climb(flow: Flow, here: int | None) -> list[int]:
    """The steps that led to one, each from the first tensor of its shape that it reads, up to one that is none such."""
    found: list[int] = []
    while here is not None and len(found) <= FARTHEST:
        found.append(here)
        if flow.op(here) not in STEPS:
            break
        size = len(flow.output(here).shape)
        here = next((maker for record, maker in flow.given(here) if len(record.shape) == size), None)
    return found[::-1]


def read_curved(flow: Flow, weighted_sum: int, scores: int, curve: tuple[int, ...]) -> CurvedSite | None:
    """The attention between two products; None where no curve bends the scores, or more than a mask joins them."""
    if not any(flow.op(node) in BENDS for node in curve) or flow.output(scores).shape != flow.output(curve[-1]).shape:
        return None
    joined = tuple(node for node in curve if len(flow.steps[node].inputs) > 1 or flow.steps[node].params)
    if not all(is_masked(flow, node) for node in joined):
        return None
    query, key = (find_way(flow, scores, len(flow.steps[scores].inputs) - back) for back in (2, 1))
    value = find_way(flow, weighted_sum, len(flow.steps[weighted_sum].inputs) - 1)
    lengths = [reader for reader in flow.readers.get(weighted_sum, ()) if flow.op(reader) == "normalize"]
    concat, output = seek_output(flow, lengths[0] if len(lengths) == 1 else weighted_sum)
    projections = {query.projection, key.projection, value.projection}
    if output is None or None in projections or not is_self(query, key, value):
        return None
    made = set(flow.ahead(scores, within=output.__gt__))
    if any(is_shared_out(flow, node, made) for node in concat):
        return None
    return CurvedSite(scores, curve, joined, weighted_sum, query, key, value, concat, output)


def is_shared_out(flow: Flow, node: int, made: Collection[int]) -> bool:
    """Whether a step divides or multiplies what was weighed by what is `made` of the scores too.

    Then what values are multiplied by may come to 1 after all.
    """
    return flow.op(node) in SCALINGS and sum(maker in made for maker in flow.makers[node]) > 1


def is_masked(flow: Flow, node: int) -> bool:
    """Whether a step hides some scores, or makes some weights 0."""
    step = flow.steps[node]
    if step.params or flow.op(node) not in (*TIMES, *FILLS):
        return False
    return all(is_yes_or_no(flow, record, maker) for record, maker in list(flow.given(node))[1:])


def is_yes_or_no(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether whole numbers are a mask, come from one, or are 0 and 1."""
    if record.is_float:
        return False
    if record.dtype == "bool" or record.role == "mask" or record.mask is not None:
        return True
    root = flow.carried_from(maker, CARRYING | WHOLE)
    if root is not None and flow.output(root).dtype == "bool":
        return True
    values = values_of(flow, maker)
    return values is not None and bool(np.isin(np.trunc(values), (0, 1)).all())
