"""Boxes of weights that worked before, or that are a part of what stands in another box: counted once."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir import trace
from xray.ir.flow.dataflow import Flow
from xray.ir.trace import Step
from xray.story.charts.chart import Node
from xray.story.charts.counted_weights import count_given, count_own, count_read, find_module

SAME_WEIGHTS = "same weights"
"""Stands beside a box whose parameters are those of one before."""


def tell_again(nodes: Sequence[Node]) -> list[Node]:
    """The boxes, those of weights that worked in one before with no parameters of their own (PaddleOCR-VL's images).

    Weights that no module holds are known by the step that worked with them first (ProphetNet's places).
    """
    seen: set[str] = set()
    found = []
    for node in nodes:
        held = {path for step in node.steps if (path := find_holder(step)) is not None}
        is_again = bool(held) and bool(node.extra) and held <= seen
        found.append(replace(node, extra=SAME_WEIGHTS) if is_again else node)
        seen |= {step.path for step in node.steps if count_given(step)}
    return found


def find_holder(step: Step) -> str | None:
    """The path of the step that worked with all the weights of one first, or of its module; None where it has none."""
    counted = count_given(step)
    if counted and step.settings.get(trace.SAME_WEIGHTS) == counted:
        return str(step.settings[trace.SAME_WEIGHTS_AS])
    return step.path if step.params and step.module else None


def leave_out_again(flow: Flow, nodes: Sequence[Node]) -> list[Node]:
    """The boxes, of those alike in one block none but the first with a count, where the block does not hold as many.

    A learned row that is led in for each of several pictures is one (LLaVA-NeXT's line ends), and is told to be so
    where the block does not hold two. So are learned numbers that one step works out for several boxes (Zamba).
    """
    blocks = {node.key: find_block(flow, node) for node in nodes}
    counts: dict[str, int] = {}
    counted: set[str] = set()
    told: set[tuple[str, str, str, str]] = set()
    left: set[str] = set()
    again: set[str] = set()
    for node in nodes:
        block = blocks[node.key]
        if block is None or node.extra in ("", SAME_WEIGHTS):
            continue
        path = flow.steps[block].path
        own = {step.id: count for step in node.steps if (count := count_read(flow, flow.places[step.id]))}
        counts[path] = counts.get(path, 0) + sum(own[one] for one in own.keys() - counted)
        again |= {node.key} if own and own.keys() <= counted else set()
        counted |= own.keys()
        kind = (path, node.steps[0].op, node.label.partition(":")[0], node.extra)
        left |= {node.key} if kind in told else set()
        told.add(kind)
    short = {
        one for one in blocks.values() if one is not None and counts.get(flow.steps[one].path, 0) > count_own(flow, one)
    }
    alike = {key for key in left - again if blocks[key] in short}
    same = {node.key for node in nodes if node.key in alike and holds_one(flow, node, blocks[node.key])}
    again |= alike - same
    told_again = dict.fromkeys(again, "") | dict.fromkeys(same, SAME_WEIGHTS)
    return [replace(node, extra=told_again.get(node.key, node.extra)) for node in nodes]


def holds_one(flow: Flow, node: Node, block: int | None) -> bool:
    """Whether a block holds by itself the weights that a box works with, and less than twice as many."""
    own = sum({step.id: count_read(flow, flow.places[step.id]) for step in node.steps}.values())
    return block is not None and own <= count_own(flow, block) < 2 * own


def find_block(flow: Flow, node: Node) -> int | None:
    """The module in which the steps of a box stand that are no modules, functions being none; None of others."""
    if not node.steps or any(step.module for step in node.steps):
        return None
    return find_module(flow, flow.places[node.steps[0].id])
