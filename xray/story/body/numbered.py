"""The numbered blocks of a model that hold the layers of a tower, those that hold none, and sums between them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.story.body.layers import Layer

NUMBERED = re.compile(r"(.*)\.\d+")


@dataclass(frozen=True)
class Numbered:
    """How many blocks there are beside each other, how many of them are idle, and the layers, from 0, that are none."""

    blocks: int | None = None
    idle: int = 0
    apart: tuple[int, ...] = ()


def read_numbered(flow: Flow, layers: Sequence[Layer], around: Collection[int]) -> Numbered:
    """The blocks of a tower; those without a layer count where all they do is done `around` the layers."""
    held = [find_block(flow, layer[0].joints[0].add) for layer in layers]
    blocks = {one for one in held if one is not None}
    if not blocks:
        return Numbered()
    alike = {(name_list(flow, one), flow.steps[one].module) for one in blocks}
    beside = {
        node
        for node in range(len(flow.steps))
        if node not in blocks and (name_list(flow, node), flow.steps[node].module) in alike
    }
    is_around = len({name for name, _ in alike}) == 1 and all(
        inner in around
        for node in beside
        for inner in range(node, flow.ends[node])
        if flow.is_leaf(inner) and flow.steps[inner].params
    )
    none = [number for number, block in enumerate(held) if block is None]
    apart = tuple(number for number in none if stands_between(flow, layers[number], blocks))
    idle, used = ({flow.steps[node].path for node in nodes} for nodes in (beside, blocks))
    return Numbered(len(idle | used), len(idle), apart) if idle and is_around else Numbered(apart=apart)


def find_block(flow: Flow, add: int) -> int | None:
    """The outermost numbered block that holds a step."""
    numbered = [node for node in flow.parents(add) if name_list(flow, node)]
    return numbered[-1] if numbered else None


def name_list(flow: Flow, node: int) -> str:
    """The path of the list that a block is an element of; empty where it is in none."""
    found = NUMBERED.fullmatch(flow.steps[node].path)
    return found[1] if found is not None and flow.steps[node].module else ""


def stands_between(flow: Flow, layer: Layer, blocks: Collection[int]) -> bool:
    """Whether the sums of a layer stand before one of some numbered blocks, and what they add was made in none."""
    add = layer[0].joints[0].add
    own = next(flow.parents(add), None)
    inner = (node for staging in layer for joint in staging.joints for node in joint.region.inner)
    makers = {block for node in inner if (block := find_block(flow, node)) is not None}
    is_beside = own is not None and any(add < block < flow.ends[own] for block in blocks)
    return is_beside and all(next(flow.parents(one), None) != own for one in makers)
