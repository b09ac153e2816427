"""Towers: a stream with its layers, what it reads, and the steps before the first layer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xray.ir.flow.attention_sites import Site, count_pairs
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.looked_along import looks_along
from xray.ir.flow.operation_kinds import LOOKUPS, SIDE_BY_SIDE, SUMS
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.anatomy.tree import Group, Tower
from xray.story.body.layers import group_layers, leave_bends
from xray.story.body.numbered import list_spans, read_numbered
from xray.story.body.stages import Staging, find_own_bend
from xray.story.body.told_layers import (
    count_mixed,
    read_turns,
    tell_again,
)
from xray.story.body.widths import shape_of
from xray.story.cutting.patterns import Layer
from xray.story.cutting.stack import read_stack
from xray.story.entrance.entrance import read_entrance, walk_on
from xray.story.entrance.entry_labels import adds_looked_up
from xray.story.entrance.inputs import are_own_numbers, hold_numbers, meets_given
from xray.story.entrance.place_tables import reads_words_alone
from xray.story.entrance.tables import looks_up_counted
from xray.story.passages.bridges import Bridging, find_bridges, list_between, list_changes, only_puts_back
from xray.story.passages.conditions import Conditioning, find_conditioning, find_looked_at
from xray.story.passages.rows_between import RowsBetween, renews_numbers
from xray.story.recognition.mixed_streams import count_divisions, read_weighing
from xray.story.recognition.norms import Norm as FoundNorm
from xray.story.recognition.norms import name_norm
from xray.story.recognition.resamplers import Resampler
from xray.story.streams.chains import Chain, count_streams
from xray.story.streams.corrected import Correction
from xray.story.streams.taps import Tap

MOST_BEHIND = 200


@dataclass(frozen=True)
class Towering:
    """A tower with the steps that it was read from: its chains, its stages, its entrance, its last norm.

    It `is_told` its words where another tower chose them, or where there are several for each place, whose rows are
    added up: they need not be those of a text (CLVP; the codes of a sound in CSM). `unread` are steps before its first
    layer that are none of a known entrance, `added` the rows of other towers between its layers, `corrections` what is
    done behind its layers to the boxes beside its stream, `taps` what leaves it before its last layer.
    """

    tower: Tower
    chains: tuple[Chain, ...]
    stagings: tuple[Staging, ...]
    layers: tuple[Layer, ...]
    entrance: frozenset[int]
    final: FoundNorm | None
    bridges: tuple[Bridging, ...] = ()
    condition: Conditioning | None = None
    is_told: bool = False
    resamplers: tuple[Resampler, ...] = ()
    unread: frozenset[int] = frozenset()
    added: tuple[RowsBetween, ...] = ()
    taps: tuple[Tap, ...] = ()
    corrections: tuple[Correction, ...] = ()

    @property
    def start(self) -> int | None:
        """The step that makes what its first layer reads; None where that comes from outside."""
        first, own = self.stagings[0].joints[0], self.chains[0]
        return own.start if first.add == own.joints[0].add else first.stream

    @property
    def end(self) -> int:
        """The step that ends it, its last norm included."""
        last = [norm.end for norm in self.stagings[-1].norms if norm.end > self.chains[-1].end] if self.stagings else []
        return max([self.chains[-1].end, *last]) if self.final is None else max(self.chains[-1].end, self.final.end)

    @property
    def first_layer(self) -> int:
        """The first step of its first sublayer."""
        joints = (joint for chain in self.chains for joint in chain.joints)
        return min(min(joint.region.inner, default=joint.add) for joint in joints)

    @property
    def last_layer(self) -> int:
        """The last sum of its layers, before one that adds what went into the first; that one if a norm reads it.

        A norm may read one that adds what went into a later layer: that is none of the layers' own (Swin2SR).
        """
        chain = self.chains[-1]
        is_last = (
            self.final is not None and self.final.end > chain.end and not any(map(chain.reaches_back, chain.skips))
        )
        return chain.end if is_last else chain.joints[-1].add

    @property
    def sums(self) -> frozenset[int]:
        """The sums on its stream; what is read from one of them is read from the tower, be it before its end."""
        return frozenset(end for chain in self.chains for end in (chain.end, *(joint.add for joint in chain.joints)))

    @property
    def nodes(self) -> set[int]:
        """Every step that has a place in it."""
        found = set(self.entrance) | (set() if self.final is None else set(self.final.nodes))
        for staging in self.stagings:
            found |= staging.nodes
        found |= set() if self.condition is None else self.condition.nodes
        found = found.union(*(one.steps | one.places for one in self.corrections))
        return found.union(*(bridge.nodes for bridge in self.bridges))


def list_results(flow: Flow, one: Towering) -> frozenset[int]:
    """Its end, its sums, and the norms and bends that the stream goes through behind these: what others begin with.

    A norm behind a sum is the layer's own, be it that another tower reads it in the middle (BridgeTower); so is a bend
    (ResNet's, before the encoder of DETR).
    """
    norms = frozenset(norm.end for own in one.stagings for norm in own.norms if norm.end > own.joints[-1].add)
    bends = frozenset(bend for own in one.stagings if (bend := find_own_bend(flow, own)) is not None)
    return one.sums | {one.end} | norms | bends


def read_tower(
    flow: Flow,
    chains: Sequence[Chain],
    sites: Sequence[Site],
    names: Mapping[int, str],
    beside: Mapping[int, str] = MappingProxyType({}),
    shared: Collection[int] = (),
) -> Towering:
    """The tower of chains that follow one another, each on the result of the one before; it has no name yet.

    `names` has the towers before it by the steps that end them, `beside` those that its attentions may look at too.
    `shared` are convolutions before one of them and what was made of these, from which its entrance may go on (D-FINE).
    """
    entrance = read_entrance(flow, chains[0].start, chains[0].joints[0].add, {*names, *shared})
    stack = read_stack(flow, chains, sites, {**beside, **names}, entrance.reads)
    layers, final, sums = stack.layers, stack.final, {joint.add for chain in chains for joint in chain.joints}
    parts, nodes = entrance.parts, set(entrance.nodes)
    if stack.opening:
        parts = (*parts, *map(name_opening, stack.opening))
        parts += (EntrancePart("norm"),) * any(one.stage.norm.place == "after" for one in stack.opening)
        nodes = nodes.union(*(one.nodes for one in stack.opening))
        nodes |= walk_on(flow, stack.opening[-1].joints[-1].add, layers[0][0].joints[0].stream, {*names, *shared})
    turns = read_turns(flow, layers)
    bridges = find_bridges(flow, layers, sites, turns, {*names, *beside}.difference(sums))
    put_back = {one.bridge.before for one in bridges if one.bridge.earlier and flow.op(one.end) in SIDE_BY_SIDE}
    groups = group_layers(flow, layers, sorted({*list_breaks(flow, bridges, layers), *turns}), put_back)
    groups = tell_again(flow, layers, groups) if turns else groups
    layers = leave_bends(flow, layers, groups)
    stagings = [one for layer in layers for one in layer]
    widths = {group.d_model for group in groups}
    streams = sums | set(names)
    condition = find_conditioning(flow, layers, final, streams, entrance.nodes, bridges)
    condition = condition or find_looked_at(flow, layers, streams)
    around = entrance.nodes.union(*(one.nodes for one in bridges))
    numbered = read_numbered(flow, layers, around)
    is_own = entrance.reads is None and are_own_numbers(flow, entrance.nodes) and hold_numbers(flow, entrance.nodes)
    alone = (entrance.nodes | entrance.unread).difference(*(one.nodes for one in entrance.resamplers))
    tower = Tower(
        name="",
        reads=entrance.reads,
        causal=is_causal(groups),
        d_model=widths.pop() if len(widths) == 1 else None,
        vocab=entrance.vocab,
        also=entrance.also,
        among=entrance.among,
        entrance=parts,
        groups=tuple(groups),
        final_norm=None if final is None else name_norm(flow, final),
        bridges=tuple(
            sorted([*(one.bridge for one in bridges), *list_changes(flow, layers)], key=lambda one: one.before)
        ),
        conditions=() if condition is None or condition.are_looked_at else condition.inputs,
        conditioned=() if condition is None else condition.ways,
        streams=count_streams(chains) or count_mixed(stagings),
        weighed_by=read_weighing(flow, [joint.mixing for chain in chains for joint in chain.joints]),
        balanced=count_divisions(flow, [joint.mixing for chain in chains for joint in chain.joints]),
        blocks=numbered.blocks,
        idle_blocks=numbered.idle,
        idle_at=numbered.idle_at,
        unlisted=numbered.unlisted,
        looked_at=condition is not None and condition.are_looked_at,
        own_numbers=is_own and not meets_given(flow, set().union(*(one.nodes for one in stagings))),
        spans=list_spans(flow, chains, layers),
        renewed=tuple(one for one, end, _, way in list_between(flow, layers) if renews_numbers(flow, end, way.inner)),
        words_alone=entrance.reads == "ids" and reads_words_alone(flow, entrance.nodes),
        before=name_looking_first(flow, [site for site in sites if site.weighted_sum in alone], nodes),
    )
    begun = () if layers[0][0].taken is None else layers[0][0].joints
    before = frozenset(nodes).difference(*(joint.region.inner for joint in begun))
    several = any(adds_looked_up(flow, node) for node in before)
    is_told = entrance.reads == "ids" and (several or reads_chosen(flow, before, names))
    return Towering(
        tower,
        tuple(chains),
        tuple(stagings),
        tuple(layers),
        before,
        final,
        bridges,
        condition,
        is_told,
        entrance.resamplers,
        entrance.unread,
    )


def name_looking_first(flow: Flow, sites: Sequence[Site], nodes: Collection[int]) -> str | None:
    """What the only attention before all layers is; of places to each other only where that is proven.

    They are the rows at which layers look, and what goes in is not added to what comes out before these.
    """
    if len(sites) != 1:
        return None
    (site,), (queries, keys) = sites, count_pairs(flow, sites[0])
    ahead = flow.ahead(site.weighted_sum, within=lambda one: one == site.weighted_sum or one in nodes)
    given = {flow.carried_from(maker) for one in ahead if flow.op(one) in SUMS for maker in flow.makers[one]}
    is_added = not given.isdisjoint({site.query.origin, *flow.behind(site.query.origin)})
    made = site.weighted_sum, len(flow.output(site.weighted_sum).shape) - 2
    are_places = site.kind == "self" and queries == keys and flow.op(made[0]) != "einsum"
    is_proven = are_places and not is_added and looks_along(flow, made[0], made[1:])
    return "self-attention" if is_proven else "attention"


def reads_chosen(flow: Flow, nodes: Collection[int], ends: Collection[int]) -> bool:
    """Whether all ids that are looked up come of what other towers end with."""
    ids = [
        maker
        for node in nodes
        if flow.op(node) in LOOKUPS and not looks_up_counted(flow, node)
        for record, maker in flow.given(node)
        if record.role == "ids"
    ]
    ways = (flow.behind(one, most=MOST_BEHIND, ends=ends.__contains__) for one in ids)
    return bool(ids) and all(any(place in ends for place in way) for way in ways)


def list_breaks(flow: Flow, bridges: Sequence[Bridging], layers: Sequence[Layer]) -> list[int]:
    """The layers before which something stands that sets those on both sides apart: they are no one stack.

    Unless the like stands before all layers but the first, and leaves the shape of the stream as it is, or no more is
    done than to lay beside the stream what was there before (U-Nets).
    """
    places = [one.bridge.before for one in bridges if one.rows is None and not only_puts_back(flow, one)]
    if 0 < len(places) < len(layers) - 1:
        return places
    return [place for place in places if shape_of(flow, layers[place - 1]) != shape_of(flow, layers[place])]


def name_opening(staging: Staging) -> EntrancePart:
    """What stands before all layers, as a part of the entrance."""
    is_mixed = staging.stage.branches[0].part == "convolution"
    return EntrancePart("convolution" if is_mixed else "projection", added=is_mixed and not staging.stage.replaces)


def is_causal(groups: Sequence[Group]) -> bool | None:
    """Whether every place sees only what stands before it; None where one attention does not tell."""
    verdicts = [
        branch.causal
        for group in groups
        for stage in group.stages
        for branch in stage.branches
        if isinstance(branch, Attention) and branch.source == "self"
    ]
    if not verdicts or any(one is None for one in verdicts):
        return None
    return True if all(verdicts) else False if not any(verdicts) else None
