"""What stands on the sheet for a step without a box: its like in the layer that is drawn, or what a block holds."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from xray.ir.flow.dataflow import Flow
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.compare.marks import Mark


class StandIns:
    """The names under which a marked step may be on the sheet, the likeliest first.

    `drawn` are the passes and towers that it was drawn from.
    """

    def __init__(self, drawn: Sequence[tuple[Flow, Towering]]) -> None:
        self.passes = list({id(flow.one_pass): flow.one_pass for flow, _ in drawn}.values())
        self.held: dict[tuple[str, str], list[str]] = {}
        for one_pass in self.passes:
            for step in one_pass.steps:
                self.held.setdefault((one_pass.key, step.parent or ""), []).append(step.id)
        self.alike: dict[str, str] = {}
        for flow, towering in drawn:
            self.alike |= pair_layers(flow, towering)

    def names(self, mark: Mark) -> Iterator[str]:
        """The step itself, then what it holds, each as the layer that is drawn has it; first in its own pass."""
        own = f"{mark.kind}{mark.number or ''}"
        for key in sorted((one.key for one in self.passes), key=lambda one: one != own):
            for step in self.with_inside(key, mark.step):
                yield f"{key}/{self.alike.get(step, step)}"

    def with_inside(self, key: str, step: str) -> Iterator[str]:
        """A step and all that it holds, in order."""
        yield step
        for inner in self.held.get((key, step), ()):
            yield from self.with_inside(key, inner)


def pair_layers(flow: Flow, towering: Towering) -> dict[str, str]:
    """For each step of a layer that is like an earlier one the same step of that one."""
    found: dict[str, str] = {}
    for group in towering.tower.groups:
        shown = towering.layers[group.layers[0]]
        for number in group.layers[1:]:
            for staging, like in zip(towering.layers[number], shown, strict=False):
                own, drawn = list_own(staging), list_own(like)
                matcher = SequenceMatcher(
                    None, [flow.op(node) for node in own], [flow.op(node) for node in drawn], False
                )
                for start, end, count in matcher.get_matching_blocks():
                    pairs = zip(own[start : start + count], drawn[end : end + count], strict=True)
                    found |= {flow.steps[one].id: flow.steps[other].id for one, other in pairs}
    return found


def list_own(staging: Staging) -> list[int]:
    """The steps of a stage, in order, without what is made beside it for all layers, as masks are."""
    inner = (node for one in staging.branches for node in one.region.inner)
    norms = (node for norm in staging.norms for node in norm.nodes)
    return sorted({*inner, *norms, *(joint.add for joint in staging.joints)})
