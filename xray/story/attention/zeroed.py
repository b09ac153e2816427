"""Weights behind softmax that are made 0 where a mask says so, as in a row that may see nothing at all."""

from xray.ir.flow.attention_sites import LAYING, Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS
from xray.story.attention.factors import SQUARE
from xray.story.charts.chart import Node, steps_at
from xray.story.charts.dropouts import describe_dropout, list_dropouts
from xray.story.recognition.addends import FILLS

ZEROED = "0 WHERE A MASK SAYS SO"


def find_zeroing(flow: Flow, site: Site) -> int | None:
    """The step behind the softmax that makes weights 0 where a mask says so; None where none does (CPM-Ant)."""
    here = next(iter(flow.makers[site.weighted_sum]), None)
    while here is not None and here != site.softmax:
        if fills_zeros(flow, here):
            return here if flow.carried_from(flow.makers[here][0]) == site.softmax else None
        here = flow.makers[here][0] if flow.op(here) in CARRYING | DROPOUTS | LAYING and flow.makers[here] else None
    return None


def fills_zeros(flow: Flow, node: int) -> bool:
    """Whether a step fills in 0 where a mask says so: as a number, or as a tensor of one."""
    if flow.op(node) not in FILLS or len(flow.steps[node].inputs) < 2:
        return False
    filled = flow.makers[node][-1] if len(flow.makers[node]) > 2 else None
    settings = flow.steps[node].settings if filled is None else flow.steps[filled].settings
    return settings.get("value" if filled is None else "input") == 0


def zeroing_node(flow: Flow, zeroing: int, row: int) -> Node:
    """Some of the weights are made 0."""
    mask, out = flow.steps[zeroing].inputs[1], flow.output(zeroing)
    steps = (*steps_at(flow, zeroing), *list_dropouts(flow, zeroing))
    told = "broadcast" if mask.shape != out.shape else ""
    extra = ", ".join(filter(None, (told, describe_dropout(flow, steps[1:]))))
    return Node("zeroed", ZEROED, row, SQUARE, steps, out, extra, beside=mask)
