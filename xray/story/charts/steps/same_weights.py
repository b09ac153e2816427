"""Boxes of weights that worked in a box before: counted once."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.charts.chart import Node
from xray.story.charts.counted_weights import weights_of_box

SAME_WEIGHTS = "same weights"
"""Stands beside a box whose parameters are those of one before."""


def tell_again(flow: Flow, nodes: Sequence[Node]) -> list[Node]:
    """The boxes, those of weights that worked in others before with no count of their own (PaddleOCR-VL's images).

    So a learned row that is led in for each of several pictures is one (LLaVA-NeXT's line ends).
    """
    seen: set[str] = set()
    found = []
    for node in nodes:
        held = weights_of_box(flow, node.steps).keys()
        is_again = bool(held) and bool(node.extra) and held <= seen
        found.append(replace(node, extra=SAME_WEIGHTS) if is_again else node)
        seen |= held
    return found
