"""What stands on the sheet for steps without a box: their like in what is drawn in full, or what a block holds."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SCALINGS
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward, Unknown
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.body.widths import list_works
from xray.story.charts.chart import Chart, Node
from xray.story.charts.stage_names import name_stage
from xray.story.compare.marks import Mark
from xray.story.passages.learned_steps import LEARNED
from xray.story.recognition.between import projections_in, width_out
from xray.story.sentences.of_parts import BOXES_AS_AT, WITHOUT
from xray.story.wording import join_words

COUNTS = re.compile(r"[\d,.]+")
DROPPED = re.compile(r"(^|, )drop path [\d.]+(, idle)?")
"""What share of whole branches is dropped: it grows from layer to layer, and boxes may be alike but for it."""
SUMMED = re.compile(r"(?<=^SUM OF )[\d,]+$")
"""How many places are added up: a size, as others that labels do not tell."""
PLACE = re.compile(r"\d+$")
"""What the name of a box ends with that tells at which step of the pass it stands."""
LAID_OUT = "LAID OUT IN "
"""How the name of a box begins that puts the same rows in lines of a map, or back: of some maps it is a step alone."""
ROLLING = ("PLACES ROLLED", "ROLLED BACK")
"""Boxes that are missing together where places are not rolled."""
TIMES_LEARNED = f"× {LEARNED}"
UNKNOWN_NORM = ", NORM UNKNOWN"
OF_SOME = ", OF SOME PLACES"
MOST_MISSING = 2
"""So many kinds of boxes may be missing of a stage that is told to be like another one."""


@dataclass(frozen=True)
class Boxes:
    """What a stage is called, and all that its boxes say but for their sizes: alike ones have all of it in common.

    `ways` are the boxes between which arrows go, by their place among them. `kind` is its name without windows,
    rolled or not: these are boxes of their own. It ends with `UNKNOWN_NORM` where it is not told where a norm stands,
    and `OF_SOME` where a feed-forward works on some of its places alone.
    `works` are the operations of a stage of which boxes need not tell all. `ops` are all of them, in order, be they in
    a box or not, with those that multiply by learned numbers, or by one alone.
    """

    name: str
    kind: str
    keys: tuple[str, ...]
    ways: frozenset[tuple[int, int]]
    said: tuple[tuple[str, str, tuple[str, ...], bool], ...]
    works: frozenset[tuple[str, int]]
    ops: tuple[str, ...] = field(default=(), compare=False)


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


def describe_boxes(flow: Flow, staging: Staging, chart: Chart) -> Boxes:
    """What the boxes of a stage say; a window that a mask alone makes changes none of them (Gemma 2)."""
    seen = (
        replace(one, window=None, rolled=None) if isinstance(one, Attention) else one for one in staging.stage.branches
    )
    kind = name_stage(replace(staging, stage=replace(staging.stage, branches=tuple(seen))))
    kind += UNKNOWN_NORM * (staging.stage.norm.place is None) + OF_SOME * is_of_some(flow, staging)
    is_masked = any(node.surface == "mask" for node in chart.nodes)
    said = tuple(
        (read_label(node), COUNTS.sub("", DROPPED.sub("", node.extra)), node.told, node.is_derived)
        for node in chart.nodes
    )
    at = {node.key: place for place, node in enumerate(chart.nodes)}
    ways = frozenset((at[edge.source], at[edge.target]) for edge in chart.edges if {edge.source, edge.target} <= {*at})
    return Boxes(
        kind if is_masked else name_stage(staging),
        kind,
        tuple(PLACE.sub("", node.key) for node in chart.nodes),
        ways,
        said,
        name_works(flow, staging),
        tuple(name_operation(flow, node) for node in list_own(staging)),
    )


def is_of_some(flow: Flow, staging: Staging) -> bool:
    """Whether each layer of a feed-forward makes fewer rows than its stream has (XCiT: the first one alone)."""
    if not all(isinstance(branch, FeedForward) for branch in staging.stage.branches):
        return False
    layers = [(node, width) for node in projections_in(flow, list_own(staging)) if (width := width_out(flow, node))]
    places = [prod(flow.output(node).shape) // width for node, width in layers]
    joint = staging.joints[-1]
    stream = prod(flow.output(joint.add if joint.mixing is None else joint.mixing.gather).shape)
    return bool(places) and max(places) < stream // layers[-1][1]


def name_operation(flow: Flow, node: int) -> str:
    """What a step does, with whether it multiplies by learned numbers, however many these are."""
    is_learned = flow.op(node) in SCALINGS and any(one.role == "parameter" for one in flow.steps[node].inputs)
    return f"{flow.op(node)} {LEARNED}" if is_learned else flow.op(node)


def name_works(flow: Flow, staging: Staging) -> frozenset[tuple[str, int]]:
    """Each operation of a stage that nothing is known of, with how often it is done; none of a known one.

    Some of them may be in no box, as those that put zeros around a map (Swin MLP).
    """
    if not any(isinstance(branch, Unknown) for branch in staging.stage.branches):
        return frozenset()
    counts = Counter[str]()
    for op, _, count in list_works(flow, staging):
        counts[op] += count
    return frozenset(counts.items())


def read_label(node: Node) -> str:
    """What a box is called but for the sizes that are in it."""
    return LAID_OUT if node.label.startswith(LAID_OUT) else SUMMED.sub("", node.label)


def tell_like(found: tuple[int, Sequence[str]] | None) -> str:
    """At which station boxes stand that are the same, or some more, as found; "" where none are."""
    if found is None:
        return ""
    station, labels = found
    return (BOXES_AS_AT + WITHOUT * bool(labels)).format(station=station, labels=join_labels(labels))


def find_like(own: Boxes, stations: Mapping[Boxes, int]) -> tuple[int, Sequence[str]] | None:
    """At which station boxes stand that are the same, or but one or two more, and what these are called.

    One learned number has no box of its own, and is no other box than several (Restormer, where it has one head).
    """
    if own in stations:
        return stations[own], ()
    more = {station: list_more(own, other) for other, station in stations.items() if other.kind == own.kind}
    in_number = [
        at for other, at in stations.items() if other.ops == own.ops and {*more.get(at, ())} == {TIMES_LEARNED}
    ]
    if in_number:
        return in_number[0], ()
    kept = {said[0] for said in own.said}
    missing = {station: name_kinds(labels) for station, labels in more.items() if kept.isdisjoint(labels)}
    near = {station: labels for station, labels in missing.items() if 0 < len(labels) <= MOST_MISSING}
    station = min(near, key=lambda one: len(near[one]), default=None)
    return None if station is None else (station, near[station])


def name_kinds(labels: Sequence[str]) -> list[str]:
    """What boxes are called, each once; those that roll places, and back, in one."""
    are_rolling = {*ROLLING} <= {*labels}
    return list(dict.fromkeys("ROLLING" if are_rolling and one in ROLLING else one for one in labels))


def join_labels(labels: Sequence[str]) -> str:
    """What boxes are called, in one: two that differ by one word have the others in common (ROTATE Q and K)."""
    words = [label.split() for label in labels]
    pairs = list(zip(*words, strict=True)) if len({len(one) for one in words}) == 1 else []
    is_near = [len({*pair}) > 1 for pair in pairs].count(True) == 1 and len(words) > 1
    return " ".join(join_words(list(dict.fromkeys(pair))) for pair in pairs) if is_near else join_words(labels)


def list_more(own: Boxes, other: Boxes) -> list[str]:
    """What boxes are called that others have more than some do, in order; none where these are not among them."""
    left, more = [said for said in own.said if said[0] != LAID_OUT], list[str]()
    for said in (one for one in other.said if one[0] != LAID_OUT):
        if left and said == left[0]:
            left.pop(0)
        else:
            more.append(said[0])
    return [] if left else more
