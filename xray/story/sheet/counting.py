"""How many parameters each layer and its sublayers have: those that their steps work with, each once by its name."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.weights import by_module, gather_weights, list_above, list_worked
from xray.ir.trace import Step
from xray.story.anatomy.tree import Untold
from xray.story.body.reading import Reading
from xray.story.body.towers import Towering
from xray.story.cutting.blocks import find_own_block, find_work
from xray.story.recognition.between import weights_of
from xray.story.sheet.layer_blocks import Layer, holds, list_around_layers, list_inner, list_modules
from xray.story.sheet.parts import list_learned_for_many
from xray.story.sheet.planning import Frame, Panel

NUMBER = re.compile(r"\b\d+\b")
"""That of a block in its list, in the name of what it holds."""


@dataclass(frozen=True)
class Lodgers:
    """Parameters that are counted with others: with those that work in the innermost module around them.

    So an expert that was given no place belongs to whoever works with the other experts.
    """

    parts: Mapping[str, int]
    homes: Mapping[str, frozenset[str]]

    @classmethod
    def among(cls, parts: Mapping[str, int], worked: Collection[str]) -> "Lodgers":
        """Modules and parameters by their names, with those that are worked with in the modules around them."""
        holding = {path: frozenset(names) for path, names in by_module(worked).items()}
        none = frozenset[str]()
        return cls(
            parts, {name: next((holding[one] for one in list_above(name) if one in holding), none) for name in parts}
        )

    def held_by(self, weights: Collection[str]) -> dict[str, int]:
        """Those that belong to whoever works with some parameters, and holds none of these already."""
        own = {*weights}
        known = own.union(*map(list_above, own))
        fits = {id(home): bool(home) and home <= own for home in self.homes.values()}
        return {name: n for name, n in self.parts.items() if fits[id(self.homes[name])] and name not in known}


def count_frames(
    reading: Reading,
    towering: Towering,
    frames: Sequence[Frame],
    idle: Mapping[str, int],
    undrawn: Sequence[Untold] = (),
    not_in_boxes: Collection[str] = (),
) -> tuple[Frame, ...]:
    """Frames with the numbers of parameters of their layers and sublayers.

    What is `idle` is counted with them, and with the layers what is drawn nowhere too, where their blocks hold it and
    none like it is drawn around them: words go their own way beside the rows that look at a picture (InstructBLIP).
    With a sublayer no idle part is counted of a block in which something else works too, be that drawn nowhere. Nor is
    what is `not_in_boxes` of any, or in those of others alone: what scales its norm is a condition's.
    """
    flow, towers = reading.flow, reading.towers
    beside, apart = list_condition(towering), list_apart(flow, towering, towers)
    every = apart.union(*(one.entrance.union(*(staging.nodes for staging in one.stagings)) for one in towers))
    every |= {place for place, step in enumerate(flow.steps) if step.params}
    left = {one.path: one.params for one in undrawn}
    worked = list_worked(flow)
    drawn = {name for name in worked if left.keys().isdisjoint((name, *list_above(name)))}
    held_layers = [list_layers(flow, towering, frame, apart) for frame in frames]
    inside = {name for layers in held_layers for nodes in layers for name in weights_of(flow, nodes, every)}
    around = {NUMBER.sub("", path) for name in drawn - inside for path in (name, *list_above(name))}
    own = {path: n for path, n in left.items() if NUMBER.sub("", path) not in around}
    lodgers, parts = Lodgers.among({**idle, **own}, drawn), Lodgers.among(idle, worked)

    modules = list_modules(flow, towering, towers)
    theirs = list_theirs(flow, towering, towers)
    lent = {name for name in list_held_for_several(flow, towering) if not any(holds(one, name) for one in modules)}
    outside = {*towering.entrance}.union(*(one.nodes for one in towering.bridges))
    outside = outside.difference(*(staging.nodes for staging in towering.stagings))
    around_layers = list_around_layers(flow, towering)
    elsewhere = {*gather_weights(flow, apart - around_layers)}
    outside |= {node for node in around_layers if not any(holds(one, flow.steps[node].path) for one in modules)}
    others = (node for node in range(len(flow.steps)) if flow.is_leaf(node) and node not in outside)
    elsewhere |= gather_weights(flow, outside).keys() - gather_weights(flow, others).keys()
    elsewhere -= inside
    within = {name: n for name, n in {**worked, **idle}.items() if name not in elsewhere}

    def weigh(nodes: Collection[int], lodgers: Lodgers = lodgers) -> dict[str, int]:
        weights = {name: n for name, n in weights_of(flow, nodes, every).items() if name not in lent}
        return weights | lodgers.held_by(weights)

    found = []
    for frame, places in zip(frames, held_layers, strict=True):
        homes = ["" if frame.whole else modules[layer] for layer in frame.group.layers]
        layers = [
            {name: n for name, n in leave_others(weigh(nodes), home, modules, theirs).items() if not holds(home, name)}
            | {name: n for name, n in within.items() if holds(home, name)}
            for nodes, home in zip(places, homes, strict=True)
        ]
        counts = [sum(weights.values()) for weights in layers]
        moved = {name: n for name, n in {**worked, **idle}.items() if name in elsewhere}
        wholes = [n + sum_held(home, moved) for n, home in zip(counts, homes, strict=True)]
        together = {name: n for weights in layers for name, n in weights.items()}
        first = [weigh(one.nodes - beside - apart, parts) for one in towering.layers[frame.group.layers[0]]]
        boxed = [weigh_boxes(flow, one) for one in frame.panels]
        first = [
            {
                **leave_others(own, homes[0], modules, theirs),
                **{name: n for name, n in shown.items() if holds(homes[0], name) and name not in elsewhere},
            }
            for own, shown in zip(first, boxed, strict=True)
        ]
        not_own = {*left, *not_in_boxes}.difference(*(one.keys() for one in boxed))
        held = [sum(weights.values()) for weights in list_own(first, not_own)]
        corrections = [one for one in towering.corrections if one.layer in frame.corrected_behind]
        correcting = weigh({*corrections[0].nodes, *corrections[0].places}) if corrections else {}
        found.append(
            replace(
                frame,
                panels=tuple(replace(one, params=n) for one, n in zip(frame.panels, held, strict=True)),
                params=counts[0],
                more=tuple(0 if whole == counts[0] else n - counts[0] for n, whole in zip(counts, wholes, strict=True)),
                together=sum(together.values()) if frame.group.shared_in_part else None,
                correcting=sum(correcting.values()),
            )
        )
    return tuple(found)


def sum_held(home: str, parameters: Mapping[str, int]) -> int:
    """How many of some parameters a layer's own module holds: of those that work between layers, be it behind it.

    So the last layer of a group has no fewer than the others that work with theirs before the next one (RGT).
    """
    return sum(n for name, n in parameters.items() if home and holds(home, name))


def list_own(parts: Sequence[Mapping[str, int]], left: Collection[str]) -> list[dict[str, int]]:
    """The parameters of each of some parts that none before it has, without what is `left`, or inside of that."""
    seen, found = {*left}, []
    for weights in parts:
        found.append({name: n for name, n in weights.items() if seen.isdisjoint((name, *list_above(name)))})
        seen |= weights.keys()
    return found


def list_held_for_several(flow: Flow, towering: Towering) -> set[str]:
    """The parameters that several layers read, and that are none's own: one table of places.

    Each layer's steps are given it, and no module there holds it (DeBERTa's relative places); or each looks into it
    beside its way, as it is a part of all their blocks, where all on that way are a layer's own (Former).
    """
    given, beside, on_way = Counter[str](), Counter[str](), Counter[str]()
    at_home = set[str]()
    for layer in towering.layers:
        steps = [flow.steps[node] for staging in layer for node in staging.nodes if flow.is_leaf(node)]
        lent = {record.weight for step in steps for record in step.inputs if record.weight is not None}
        given.update(lent.difference(*(step.weights for step in steps)))
        at_home.update(list_at_home(steps))
        regions = [one.region for staging in layer for one in staging.branches]
        inner = frozenset[int]().union(*(region.inner for region in regions))
        own = gather_weights(flow, inner)
        on_way.update(own.keys())
        around = frozenset[int]().union(*(region.beside for region in regions)) - inner
        beside.update(gather_weights(flow, around).keys() - own.keys())
    looked_up = Counter[str]() if max(on_way.values(), default=0) > 1 else beside
    several = {name for times in (given, looked_up) for name, count in times.items() if count > 1}
    return several - at_home


def list_at_home(steps: Sequence[Step]) -> set[str]:
    """The parameters that steps of a layer are given in the very module that holds them, a part of the layer.

    So layers that share a block share its norms, be these written by hand (Zamba 2).
    """
    modules = {step.path.rpartition(".")[0] for step in steps}
    apart = {home for home in modules if not all(holds(home, one) for one in modules)}
    given = {(record.weight, step.path.rpartition(".")[0]) for step in steps for record in step.inputs if record.weight}
    return {name for name, home in given if home in apart and name.rpartition(".")[0] == home}


def weigh_boxes(flow: Flow, panel: Panel) -> dict[str, int]:
    """The parameters that the boxes of a sublayer work with."""
    steps = (step.id for node in panel.chart.nodes for step in node.steps)
    return gather_weights(flow, (flow.places[one] for one in steps if one in flow.places))


def leave_others(
    weights: Mapping[str, int], module: str, modules: Collection[str], theirs: Collection[str]
) -> Mapping[str, int]:
    """The parameters of a layer that is a module of a list: those that this holds, or lists of others beside it.

    Those of another module of the list too, if that is none of the `modules` that layers are: the layer works with the
    next one's first norm, as the stream goes on from there (Xception). What is `theirs`, as layers of another tower
    work with it, is none of this one's (HDiT's noise).
    """
    if not module:
        return weights
    alike, others = NUMBER.sub("", module), {*modules} - {module}
    is_like = {name: holds(alike, NUMBER.sub("", name)) for name in weights}
    beside = (name for name, like in is_like.items() if NUMBER.search(name) and not like and name not in theirs)
    next_one = (name for name, like in is_like.items() if like and not any(holds(one, name) for one in others))
    return {name: weights[name] for name in (*beside, *next_one)}


def list_theirs(flow: Flow, towering: Towering, towers: Sequence[Towering]) -> Collection[str]:
    """The parameters that the layers of other towers work with."""
    layers = [layer for one in towers if one is not towering for layer in one.layers]
    return weights_of(flow, frozenset[int]().union(*map(list_inner, layers))).keys()


def list_layers(flow: Flow, towering: Towering, frame: Frame, apart: Collection[int]) -> list[set[int]]:
    """The steps of each layer of a frame, without what is `apart`; with what works out a condition for it alone."""
    beside = list_condition(towering)
    layers = [set[int]().union(*(one.nodes for one in layer)) for layer in towering.layers]
    makers = ([maker for node in nodes for maker in flow.makers[node]] for nodes in layers)
    ways = [{*flow.behind(*some, within=beside.__contains__)} for some in makers]
    times = Counter(node for way in ways for node in way)
    own = [{node for node in way if times[node] == 1 < len(layers)} for way in ways]
    return [(layers[layer] | own[layer]).difference(apart) for layer in frame.group.layers]


def list_apart(flow: Flow, towering: Towering, towers: Sequence[Towering]) -> frozenset[int]:
    """The steps that are no layer's own: what serves several of them, or stands around all."""
    beside = list_condition(towering)
    own = frozenset[int]() if towering.condition is None else towering.condition.alone
    found = list_around_layers(flow, towering) | list_serving_several(flow, towering.layers, beside)
    found |= (list_before_layers(flow, towering.layers) - own) | list_before_blocks(flow, towering.layers)
    found |= frozenset[int]().union(*(list_learned_for_many(flow, one) for one in (towering, *towers)))
    found |= frozenset[int]().union(*map(list_condition, towers)) - beside
    found |= list_leading_across(flow, towering, towers)
    if towering.condition is not None and towering.tower.looked_at:  # no layer's own
        found |= towering.condition.nodes
    return found


def list_leading_across(flow: Flow, towering: Towering, towers: Sequence[Towering]) -> set[int]:
    """The steps beside a tower's layers that work with parameters for sublayers of other towers alone.

    So is what scales the rows of a picture, of which keys are made that a text looks at too (Pyramid Flow).
    """
    own, *others = (
        {node for layer in one.layers for node in list_inner(layer)}
        for one in (towering, *(tower for tower in towers if tower is not towering))
    )
    theirs = set[int]().union(*others) - own
    regions = [joint.region for staging in towering.stagings for joint in staging.joints]
    beside = frozenset[int]().union(*(region.beside for region in regions)) - own - theirs
    found = set[int]()
    for node in (one for one in beside if flow.steps[one].params and flow.is_leaf(one)):
        ways = {node, *flow.ahead(*flow.readers.get(node, ()), within=lambda one: one not in own and one not in theirs)}
        readers = {reader for one in ways for reader in flow.readers.get(one, ())}
        found |= {node} if readers & theirs and not readers & own else set()
    return found


def list_condition(towering: Towering) -> frozenset[int]:
    """The steps that work out what scales, shifts and gates the sublayers of a tower; none where rows are looked at."""
    return frozenset() if towering.condition is None or towering.tower.looked_at else towering.condition.nodes


def list_serving_several(flow: Flow, layers: Sequence[Layer], beside: frozenset[int]) -> frozenset[int]:
    """The steps of a condition that are worked out for several layers: no layer's own, as the time is none (SD 3)."""
    held = (beside.intersection({node for staging in layer for node in staging.nodes}) for layer in layers)
    times = Counter(node for nodes in held for node in flow.behind(*nodes, within=beside.__contains__))
    return frozenset(node for node, count in times.items() if count > 1)


def list_before_layers(flow: Flow, layers: Sequence[Layer]) -> frozenset[int]:
    """The steps before all layers that several of them read beside the stream, the first one's beside it as well."""
    regions = [joint.region for layer in layers for staging in layer for joint in staging.joints]
    inner = frozenset[int]().union(*(region.inner for region in regions))
    beside = frozenset[int]().union(*(region.beside for region in regions)) - inner
    return frozenset(node for node in list_serving_several(flow, layers, beside) if node < min(inner))


def list_before_blocks(flow: Flow, layers: Sequence[Layer]) -> frozenset[int]:
    """The steps that ran before the block of a list which a layer is, and that others read too: they are no layer's.

    With what led to them alone: so pairs are made of a stream once, and all layers look at these (Genie).
    """
    works = [find_work(flow, (*layer,)) for layer in layers]
    blocks = [find_own_block(flow, work, works) for work in works]
    nodes = [frozenset[int]().union(*(staging.nodes for staging in layer)) for layer in layers]
    found = set[int]()
    for block, some in zip(blocks, nodes, strict=True):
        before = {node for node in some if block is not None and node < block}
        lent = (node for node in before if not some.issuperset(flow.leaf_readers(node)))
        found.update(flow.behind(*lent, within=before.__contains__))
    return frozenset(found)
