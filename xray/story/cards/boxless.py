"""What is worked out on the way from box to box and stands in none, by the part that it belongs to."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain, product

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SIDE_BY_SIDE, SOFTMAXES
from xray.story.anatomy.attentions import Attention
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.charts.stage_names import name_stage
from xray.story.charts.sum_chart import list_behind
from xray.story.facts.unsaid import (
    find_boxless,
    follow,
    list_aside_of,
    list_of_no_data,
    list_of_numbers,
    list_unsaid_of,
)
from xray.story.facts.unused import name_kind
from xray.story.passages.bridges import list_between
from xray.story.regions.drawn_steps import list_drawn, list_leaving
from xray.story.sentences.of_models import EARLIER, OF_NO_DATA
from xray.story.sheet.columns import Column
from xray.story.sheet.layer_blocks import list_around_layers
from xray.story.sheet.planning import Panel
from xray.story.streams.joints import Joint

WHERE_DRAWN = " where drawn"
Unsaid = Sequence[tuple[str, Flow, Sequence[int]]]
"""Steps that stand in no box, with the part that they belong to and their pass."""
Kind = tuple[str, str, int]


def count_unsaid(columns: Sequence[Column], unsaid: Unsaid) -> tuple[tuple[str, Counter[str]], ...]:
    """How often each operation stands in no box, by the part that it belongs to.

    An operation counts as often as it runs: what boxes of one layer leave out once for each layer that does the same.
    Where some layers are not opened, and do not do the same as one that is, what is drawn of a part is told alone.
    """
    found: dict[str, Counter[str]] = {}
    runs, unlike = count_runs(columns)
    for name, flow, nodes in unsaid:
        found.setdefault(name, Counter())
        for node in nodes:
            for part, times in runs.get((id(flow), name, node), {name: 1}).items():
                found.setdefault(part, Counter())[flow.op(node).rstrip("_")] += times
    return tuple((name + WHERE_DRAWN * (name in unlike), ops) for name, ops in found.items() if ops)


def tell_left_out(column: Column, unsaid: Unsaid) -> Column:
    """The column, its panels told of which an attention has a softmax in no box (timm's DiffParallel).

    What its boxes say of scores and weights is but a part of what it does; not where what each of several gives is laid
    beside what the others do, as of pieces and windows (Qwen's eye).
    """
    flow = column.reading.flow
    left = {node for _, other, nodes in unsaid if other is flow for node in nodes}
    weighing = {node for node in left if flow.op(node) in SOFTMAXES and not is_laid_beside(flow, node)}

    def tell(panel: Panel) -> Panel:
        found = [one for one in panel.staging.branches if isinstance(one.branch, Attention)]
        return replace(panel, leaves_out=any(not weighing.isdisjoint(one.region.inner) for one in found))

    frames = (replace(frame, panels=tuple(map(tell, frame.panels))) for frame in column.frames)
    return replace(column, frames=tuple(frames))


def is_laid_beside(flow: Flow, softmax: int) -> bool:
    """Whether what is weighed by a softmax goes, but for moves, into nothing that does not lay it beside others."""
    _, weighed = follow(flow, softmax, CARRYING | DROPOUTS)
    made = {reader for node in weighed for reader in follow(flow, node)[1]}
    return bool(made) and all(flow.op(node) in SIDE_BY_SIDE for node in made)


def count_runs(columns: Sequence[Column]) -> tuple[dict[tuple[int, str, int], Counter[str]], frozenset[str]]:
    """How many stages of which name do what each step of an opened one does: itself, and those not opened like it.

    Steps are told by their pass and the name of the stage. A stage that is not opened counts with those of its tower
    that do the same, of its name where such a one is opened, and else of another (attention without windows), each step
    in no box with the first like it: not all have what stands beside the way of the rows (ResNet's convolution).
    What runs within stages of two towers counts for that which has more. The names are those of stages that are not
    opened, and do more than one of that name that is.
    """
    phases = [phase for column in columns for phase in column.phases]
    panels = [(phase, panel) for phase in phases for frame in phase.frames for panel in frame.panels if panel.is_open]
    opened = {id(panel.staging) for _, panel in panels}
    held = {id(one): (phase, one) for phase in phases for one in phase.towering.stagings}
    drawn = list_drawn(columns)
    alike: dict[tuple[str, int, int, tuple[tuple[str, ...], ...]], list[dict[Kind, int]]] = {}
    for phase, one in (found for key, found in held.items() if key not in opened):
        flow, told = phase.reading.flow, list_stood_for(phase)
        left = {node: kinds for node, kinds in name_likes(flow, one).items() if node not in told}
        left = {node: kinds for node, kinds in left.items() if flow.steps[node].id not in drawn[id(flow)]}
        likes = {kind: node for node, kinds in left.items() for kind in kinds}
        alike.setdefault(outline_stage(phase, one), []).append(likes)
    shown = {outline_stage(phase, panel.staging) for phase, panel in panels}
    runs: dict[tuple[int, str, int], Counter[str]] = {}
    met = set[object]()
    for phase, panel in panels:
        flow, own = phase.reading.flow, outline_stage(phase, panel.staging)
        others = [one for one in alike if one == own or (one[1:] == own[1:] and one not in shown)]
        stood, kinds = [(one[0], likes) for one in others for likes in alike[one]], name_likes(flow, panel.staging)
        for node, like in kinds.items():
            key = (id(flow), own[0], node)
            times = Counter([own[0], *(name for name, likes in stood if not likes.keys().isdisjoint(like))])
            runs[key] = max(times, runs.get(key, times), key=Counter.total)
        for _, likes in stood:
            counted = {likes[kind] for like in kinds.values() for kind in like if kind in likes}
            for kind in [kind for kind, node in likes.items() if node in counted]:
                del likes[kind]
        met.update(others)
    names = [(name, Counter(chain(*ops))) for name, *_, ops in shown]
    return runs, frozenset(
        name
        for name, *_, ops in alike.keys() - met
        if not any(one == name and Counter(chain(*ops)) <= more for one, more in names)
    )


def name_likes(flow: Flow, staging: Staging) -> dict[int, set[Kind]]:
    """Each step of a stage by its path without numbers, its operation, and the how manieth of these it is there.

    And so by its path in the block of the last sum alone, as layers may stand in `down_blocks.0` and `mid_block`. What
    that block makes beside the way of the rows is the stage's, be it before this begins (RAR). And by how often the
    stage does that operation, as two parts that do the same may have names of their own (Boltz's triangles).
    """
    block = name_block(flow, staging)
    found, seen = dict[int, set[Kind]](), Counter[tuple[str, str]]()
    beside = {node for node in list_beside(staging) if flow.steps[node].path.startswith(block)}
    own = beside.union(span_stage(staging), *(joint.region.inner for joint in staging.joints))
    nodes = sorted(own - list_passing(flow, staging))
    times = Counter(map(flow.op, nodes))
    for node in nodes:
        paths = {flow.steps[node].path, flow.steps[node].path.removeprefix(block)}
        kinds = {(re.sub(r"\d+", "", path), flow.op(node)) for path in paths}
        kinds.add((str(times[flow.op(node)]), flow.op(node)))
        found[node] = {(*kind, seen[kind]) for kind in kinds}
        seen.update(kinds)
    return found


def outline_stage(phase: Column, staging: Staging) -> tuple[str, int, int, tuple[tuple[str, ...], ...]]:
    """A stage by its name, its pass, its tower, and its branches' operations in order, but for moves and dropouts.

    Be some rows laid along the lines of a map in one layer, and along its columns in another (DALL-E).
    """
    flow = phase.reading.flow
    ways = [[flow.op(node) for node in list_own(flow, joint)] for joint in staging.joints]
    ops = tuple(tuple(op for op in way if op not in CARRYING | DROPOUTS) for way in ways)
    return (name_stage(staging).lower(), id(flow), phase.towering.first_layer, ops)


def list_beside(staging: Staging) -> frozenset[int]:
    """What a stage does beside the way of its rows."""
    return frozenset[int]().union(*(joint.region.beside for joint in staging.joints))


def list_own(flow: Flow, joint: Joint) -> list[int]:
    """The steps of a branch in their order, but those that the stream goes through too: its scale at the entrance."""
    inner, end = joint.region.inner, joint.region.end
    first = min(inner)
    ways = [{*flow.behind(maker, within=lambda one: one >= first)} for maker in flow.makers[joint.add]]
    apart = set[int]().union(*(way for way in ways if end not in way))
    return [node for node in sorted(inner - apart) if flow.is_leaf(node)]


def find_unsaid(columns: Sequence[Column]) -> list[tuple[str, Flow, list[int]]]:
    """The steps that work something out and stand in no box, with the part that they belong to and their pass.

    What none of the known parts holds comes last, so that no step is missed.
    """
    found: list[tuple[str, Flow, list[int]]] = []
    phases = [phase for column in columns for phase in column.phases]
    opened = [(phase, panel) for phase in phases for frame in phase.frames for panel in frame.panels if panel.is_open]
    drawn, leaving = list_drawn(columns), list_leaving(columns)
    boxed = {key: frozenset(steps) for key, steps in drawn.items()}
    added: dict[int, set[int]] = {}  # be the frames of one tower in two columns
    for phase in phases:
        added.setdefault(id(phase.reading.flow), set()).update(list_drawn_once(phase))
    for phase in phases:
        flow, seen = phase.reading.flow, drawn[id(phase.reading.flow)]
        stagings = [panel.staging for which, panel in opened if which is phase]
        for staging in stagings:
            aside = list_aside_of(flow, list_beside(staging), boxed[id(flow)])
            found.append((name_stage(staging).lower(), flow, [one for one in aside if flow.steps[one].id not in seen]))
            seen.update(flow.steps[node].id for node in aside)
        behind = {node for staging in phase.towering.stagings for node in list_behind(flow, staging)}
        parts = [(name_stage(one).lower(), joint.region.inner - behind) for one in stagings for joint in one.joints]
        between = {node for *_, region in list_between(flow, phase.towering.layers) for node in region.inner}
        between -= behind.union(added[id(flow)], *(staging.nodes for staging in phase.towering.stagings))
        unread = phase.towering.unread if phase.is_first else frozenset[int]()
        before = phase.towering.entrance - leaving[id(flow)] if phase.entrance is not None else unread
        around = find_boxless(flow, list_around_layers(flow, phase.towering), seen)
        around = around.difference(between, before, *(nodes for _, nodes in parts))
        around -= list_told_elsewhere(flow, around, phase.towering.stagings, seen)
        for name, nodes in [*parts, ("between layers", between), ("entrance", before), ("around layers", around)]:
            found.append((name, flow, list_unsaid_of(flow, nodes, seen, enters=name == "entrance")))
            seen.update(flow.steps[node].id for node in nodes)
    for name, phase in product(("between layers", "exit", EARLIER), phases):
        flow, seen = phase.reading.flow, drawn[id(phase.reading.flow)]
        beside = [one.towering for one in phases if one.reading.flow is flow]
        owned = set().union(*(one.nodes for one in beside))
        lasts = [staging for one in beside for staging in one.stagings[-1:]]
        owned |= {node for staging in lasts for node in list_behind(flow, staging)}
        owned |= added[id(flow)]
        others = [one for one in beside if one is not phase.towering]
        owned -= leaving[id(flow)]
        spans = [range(one.first_layer, max(one.sums)) for one in others]
        if name == EARLIER:  # what leads from one tower to layers of another runs between these (BridgeTower)
            spans = [span for one in others for span in list_spans(one.stagings)]
        within_stages = list_spans(phase.towering.stagings)
        sums, end = phase.towering.sums, phase.towering.chains[-1].end
        last = min(end, phase.towering.last_layer)  # a sum around several layers may stand behind the last (SepFormer)
        within, ends = set(flow.behind(end)), {last} if name == "exit" else sums
        left = [node for node in flow.ahead(*ends) if node not in owned and not any(node in one for one in spans)]
        if name == "between layers":  # on the way to a later layer, and in none (InstructBLIP's words)
            left = [node for node in left if node in within and node < last and not is_bent(flow, node, sums)]
            left = [node for node in left if not any(node in one for one in within_stages)]
        elif name == EARLIER:  # a state is a layer's own; a norm for whoever calls the model is none's (SegGPT)
            apart = [node for node in left if node not in within and not any(node in one for one in within_stages)]
            left = [node for node in left if node > max(sums) or node in apart]
        going = [node for node in left if name == "exit" and node not in leaving[id(flow)]]
        lead_on = [node for node in going if any(leads_before(flow, node, one) for one in others)]
        alone = {*flow.ahead(end)}.difference(flow.ahead(*(node for one in others for node in one.sums)))
        late = [node for node in left if name == EARLIER and node in alone]  # be it while another tower runs (CoCa)
        layers = [range(one[0].joints[0].add, one[-1].joints[-1].add) for one in phase.towering.layers]
        inner = [node for node in left if name == "between layers" and any(node in one for one in layers)]
        for part, some in (("between towers", lead_on), ("exit", late), ("between sublayers", inner), (name, left)):
            found.append((part, flow, list_unsaid_of(flow, some, seen)))
            seen.update(flow.steps[node].id for node in some)
    for flow in {id(phase.reading.flow): phase.reading.flow for phase in phases}.values():
        seen, own = drawn[id(flow)], [phase for phase in phases if phase.reading.flow is flow]
        for name, nodes in list_rest(own, added[id(flow)]):
            left = list_unsaid_of(flow, nodes & list_of_numbers(flow), seen)
            found.append((name, flow, sorted({*left, *list_unsaid_of(flow, list_counted(flow, left) & nodes, seen)})))
        found.append((OF_NO_DATA, flow, list_of_no_data(flow, seen)))
    return found


def list_counted(flow: Flow, nodes: Collection[int]) -> set[int]:
    """What makes numbers of flags, that numbers made themselves, for some steps: how many rows chose each expert."""
    numbers = list_of_numbers(flow)
    way = {*flow.behind(*nodes, within=lambda one: one not in numbers or one in nodes)} - {*nodes}
    return {node for node in way - numbers if not numbers.isdisjoint(flow.behind(node))}


def list_rest(phases: Sequence[Column], added: Collection[int]) -> list[tuple[str, set[int]]]:
    """All steps of a pass for which no alike ones stand, by the stage within which they run, or elsewhere.

    What is taken for given within a branch is none of its region (Performer's highest scores), yet runs within it.
    """
    flow = phases[0].reading.flow
    stagings = [staging for phase in phases for staging in phase.towering.stagings]
    opened = {id(one.staging) for phase in phases for frame in phase.frames for one in frame.panels if one.is_open}
    within: dict[int, Staging | None] = {}
    for staging in sorted(stagings, key=lambda one: -len(span_stage(one))):
        within |= dict.fromkeys(span_stage(staging), staging)
        within |= dict.fromkeys(list_passing(flow, staging), None)
    for staging in sorted(stagings, key=lambda one: id(one) in opened):
        within |= dict.fromkeys(staging.nodes, staging)
    conditions = (phase.towering.condition for phase in phases)
    within |= dict.fromkeys((node for one in conditions if one is not None for node in one.untold), None)
    held = ({*list_behind(flow, one), *one.past} for one in stagings)  # by the boxes of their sums
    apart = {*added}.union(*held, *map(list_stood_for, phases))
    found: dict[str, set[int]] = {}
    for node in set(range(len(flow.steps))) - apart:
        holding = within.get(node)
        if holding is None or id(holding) in opened:
            found.setdefault("elsewhere" if holding is None else name_stage(holding).lower(), set()).add(node)
    return [*found.items()]


def span_stage(staging: Staging) -> range:
    """All that runs from the first step on the stream to the sum of a stage."""
    first = min((node for joint in staging.joints for node in joint.region.inner), default=0)
    return range(first, max(joint.add for joint in staging.joints) + 1)


def list_passing(flow: Flow, staging: Staging) -> set[int]:
    """What runs within a stage, yet outside of its block, and leads to later ones alone (GC ViT's queries)."""
    span, block = span_stage(staging), name_block(flow, staging)
    rest = {*span} - staging.nodes - {*flow.behind(span[-1], within=span.__contains__)}
    rest = {node for node in rest if not flow.steps[node].path.startswith(block)}
    led = {node for node in rest if any(reader not in span for reader in flow.readers.get(node, ()))}
    return rest.intersection(flow.behind(*led, within=rest.__contains__))


def name_block(flow: Flow, staging: Staging) -> str:
    """The path of the block that holds the last sum of a stage, and what each one in it begins with."""
    return f"{flow.steps[staging.joints[-1].add].path.rpartition('.')[0]}."


def list_stood_for(phase: Column) -> set[int]:
    """The steps around layers of which the boxes of one bridge, condition or correction tell for all.

    Of bridges only what one draws (not RGT's, between groups). Not what corrects the boxes that the first layer read,
    in another way than later ones (D-FINE).
    """
    towering, condition = phase.towering, phase.towering.condition
    found = set[int]() if condition is None else {*(condition.nodes - condition.untold)}
    charts = (frame.bridge for frame in phase.frames if frame.bridge is not None)
    kinds = {name_kind(step.path) for chart in charts for node in chart.nodes for step in node.steps}
    bridges = set[int]().union(*(one.nodes | one.aside for one in towering.bridges))
    found |= {node for node in bridges if name_kind(phase.reading.flow.steps[node].path) in kinds}
    found = found.union(*(one.nodes for one in towering.taps))
    return found.union(*((one.steps - one.first) | one.places for one in towering.corrections))


def leads_before(flow: Flow, node: int, other: Towering) -> bool:
    """Whether a step stands before another tower's first layer, and leads to it (Mask2Former's first masks)."""
    return node < min(other.sums) and node in set(flow.behind(*other.sums, within=lambda one: one >= node))


def is_bent(flow: Flow, node: int, sums: frozenset[int]) -> bool:
    """Whether a step works on nothing but a sum of a stream: it bends or scales the stream itself (ResNet's ReLU)."""
    return sums.issuperset(maker for maker in flow.makers[node] if maker is not None)


def list_told_elsewhere(
    flow: Flow, nodes: Collection[int], stagings: Sequence[Staging], drawn: Collection[str]
) -> set[int]:
    """Those of some steps that end a sublayer, or run within one, of which a box of another layer tells (RT-DETR)."""
    kinds = {name_kind(one.partition("#")[0]) for one in drawn}
    spans = [range(min(one.nodes), max(one.nodes) + 1) for one in stagings]
    inside = (node for node in nodes if any(node in span for span in spans))
    return {node for node in inside if name_kind(flow.steps[node].path) in kinds}


def list_spans(stagings: Sequence[Staging]) -> list[range]:
    """What runs between the first and the last step of each stage: within a layer, and not between two."""
    every = (one.nodes for one in stagings)
    return [range(min(nodes) + 1, max(nodes)) for nodes in every]


def list_drawn_once(phase: Column) -> set[int]:
    """The steps that work out rows and add them between layers, or hand them out, if those of one are drawn for all."""
    flow = phase.reading.flow
    charts = [*(frame.bridge for frame in phase.frames), phase.exit]
    nodes = (node for chart in charts if chart is not None for node in chart.nodes)
    drawn = {flow.places[step.id] for node in nodes for step in node.steps}
    added = [{*rows.nodes, rows.add, rows.end} for rows in phase.towering.added]
    handed = [set(tap.nodes) for tap in phase.towering.taps if tap.nodes]
    is_drawn = any(rows.add in drawn for rows in phase.towering.added)
    groups = [added] * is_drawn + [handed] * (bool(handed) and not drawn.isdisjoint(handed[-1]))
    return {place for steps in groups for own in steps for place in own}
