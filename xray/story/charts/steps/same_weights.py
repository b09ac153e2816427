"""Boxes of weights that worked in a box before: counted once."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.weights import gather_weights
from xray.story.charts.chart import Node
from xray.story.charts.counted_weights import CUTS, weights_of_box
from xray.story.recognition.between import works_on_weights
from xray.story.sentences.of_parts import describe_own_beside
from xray.story.wording import plural

SAME_WEIGHTS, PART = "same weights", "a part of the "
"""Stands beside a box whose parameters are those of one before, and before that where it works with some of these."""
DRAWN_BEFORE = "drawn before"
"""Stands beside a box of the very steps that a box of another tower holds."""


def tell_again(flow: Flow, nodes: Sequence[Node]) -> list[Node]:
    """The boxes, those of weights that worked in others before with no count of their own (PaddleOCR-VL's images).

    What a box has beside these is counted. So a learned row that is led in for each of several pictures is one
    (LLaVA-NeXT's line ends). A box that is given what others made of weights works with none (SAM 2's sum of patches
    and of what stands for their places).
    """
    boxed = {flow.places[step.id] for node in nodes for step in node.steps if step.id in flow.places}
    seen: set[str] = set()
    found = []
    for node in nodes:
        held = weights_of_box(flow, node.steps)
        own = sum(count for name, count in held.items() if not is_in(name, seen))
        is_again = bool(node.extra) and own < sum(held.values())
        is_again &= not own or node.extra == plural(sum(held.values()), "parameter")
        told = describe_again(flow, node, SAME_WEIGHTS, own) if is_again and reads_weights(flow, node, boxed) else ""
        found.append(replace(node, extra=told) if is_again else node)
        seen |= held.keys()
    return found


def describe_again(flow: Flow, node: Node, told: str, own: int) -> str:
    """Where the weights of a box stand, and that it takes some of these alone (each of EfficientViM's gates a row)."""
    made = [flow.places[step.id] for step in node.steps if step.id in flow.places]
    cuts = [one for one in made if flow.op(one) in CUTS and len(flow.steps[one].inputs) == 1]
    is_part = told.startswith(SAME_WEIGHTS) and any(works_on_weights(flow, one) for one in cuts)
    return describe_own_beside(PART * is_part + told, own)


def is_in(name: str, seen: Collection[str]) -> bool:
    """Whether a parameter was met, or the one of which it is a part."""
    return name in seen or name.partition(" ")[0] in seen


def reads_weights(flow: Flow, node: Node, boxed: Collection[int]) -> bool:
    """Whether a box works with weights, or with what steps without a box made of nothing else."""
    places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
    own = {inner for one in places for inner in range(one, flow.ends[one])}

    def is_own(one: int) -> bool:
        return one in own or (one not in boxed and works_on_weights(flow, one))

    return bool(gather_weights(flow, flow.behind(*own, within=is_own)))
