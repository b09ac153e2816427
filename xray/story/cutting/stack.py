"""The stack of a tower: its stages chain by chain, cut into layers, what opens it, and the norm behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.story.body.last_norms import (
    ends_as_another,
    goes_past,
    is_end_of_layer,
    is_of_keys,
    is_of_last_block,
    is_of_way_on,
    is_used,
    last_norm,
    norm_within_skip,
    take_norm,
)
from xray.story.body.stages import Staging, read_stage
from xray.story.body.told_layers import fill_windows, tell_by_layer, tell_cut_stream, tell_rejoined, tell_windows
from xray.story.body.widths import brings_to_width, end_of
from xray.story.cutting.beside import list_beside
from xray.story.cutting.cut import cut_tower
from xray.story.cutting.patterns import Layer
from xray.story.recognition.mixed_streams import find_end
from xray.story.recognition.norms import Norm as FoundNorm
from xray.story.streams.chains import Chain, list_stream_norms
from xray.story.streams.put_back import list_put_back
from xray.story.streams.scaled_streams import find_cleared, find_factor_behind, list_learned_behind
from xray.story.streams.shortcuts import find_any_norm, with_turns


@dataclass(frozen=True)
class Stack:
    """The layers of a tower, the stages that open it before all of these, and the norm behind them."""

    layers: list[Layer]
    opening: tuple[Staging, ...]
    final: FoundNorm | None


def read_stack(
    flow: Flow, chains: Sequence[Chain], sites: Sequence[Site], towers: Mapping[int, str], reads: str | None
) -> Stack:
    """The stack of chains that follow one another; its attentions may look at `towers`, by the steps that end these."""
    runs: list[list[Staging]] = []
    opening: list[Staging] = []
    for chain in chains:
        own = tell_windows(flow, read_stagings(flow, chain, sites, towers))
        own = tell_cut_stream(flow, reads, own, chains[-1].end, [one for run in runs for one in run])
        if not any(runs) and (is_opening(own) or brings_to_width(flow, own)):
            opening.append(own.pop(0))
        runs.append(own if chain is chains[-1] else take_ending(flow, chain, own))
    final = find_final(flow, chains, runs[-1], sites)
    stagings = [one for run in runs for one in run]
    if not opening and is_opening_alone(flow, stagings):
        opening.append(stagings[0])
        runs = [[one for one in run if one is not stagings[0]] for run in runs]
    layers = leave_norms(flow, cut_tower(flow, runs, sites), stagings, sites, towers)
    if final is not None and (is_end_of_layer(layers) or ends_as_another(flow, chains[-1], layers, final)):
        layers[-1] = (*layers[-1][:-1], take_norm(flow, layers[-1][-1], final))
        final = norm_behind(flow, final)
    layers = fill_windows(flow, [tell_rejoined(flow, layer, sites, towers) for layer in layers])
    return Stack(tell_by_layer(flow, layers), tuple(opening), final)


def leave_norms(
    flow: Flow, layers: list[Layer], stagings: Sequence[Staging], sites: Sequence[Site], towers: Mapping[int, str]
) -> list[Layer]:
    """Layers without the norm with which a sum between two of them begins, where no others have one (GC ViT)."""
    kept = {id(one) for layer in layers for one in layer}
    begun = {one.joints[0].stream for one in stagings if id(one) not in kept}
    led = {id(layer[-1]) for layer in layers if begun & {norm.end for norm in layer[-1].norms}}
    others = [one for layer in layers for one in layer if id(one) not in led]
    led &= {id(layer[-1]) for layer in layers if leaves_bare(others, layer[-1])}
    return [
        (*layer[:-1], read_stage(flow, layer[-1].joints, [], sites, towers)) if id(layer[-1]) in led else layer
        for layer in layers
    ]


def take_ending(flow: Flow, chain: Chain, stagings: list[Staging]) -> list[Staging]:
    """The stages of a chain before others, the last of them with the norm behind it that is its own."""
    last, ending = stagings[-1], last_norm(flow, chain.end)
    is_alone = len(stagings) == 1 and last.stage.norm.place == "none"
    is_own = ending is not None and not last.stage.norm.is_behind_sum and is_of_last_block(flow, chain, ending)
    if ending is None or not (is_alone or is_own):
        return stagings
    return [*stagings[:-1], take_norm(flow, last, ending)]


def find_final(
    flow: Flow, chains: Sequence[Chain], stagings: Sequence[Staging], sites: Sequence[Site]
) -> FoundNorm | None:
    """The norm behind the last of some chains, which has some stages."""
    chain = chains[-1]
    end = own_end(flow, stagings, chain)
    final = last_norm(flow, find_end(flow, chain.joints[-1].mixing, end))
    sums = [joint.add for one in chains for joint in one.joints]
    is_own = final is not None and not goes_past(flow, end, final) and is_used(flow, final.end)
    if final is None or not is_own or is_of_keys(flow, end, final, sites) or is_of_way_on(flow, sums, final):
        return norm_within_skip(flow, chain)
    return final


def is_opening(stagings: Sequence[Staging]) -> bool:
    """Whether a chain begins with a convolution that comes once, before all layers, as places do (wav2vec 2.0)."""
    parts = [one.stage.branches[0].part for one in stagings]
    return (
        len(parts) > 1
        and parts[0] == "convolution"
        and "convolution" not in parts[1:]
        and stagings[0].stage.norm.place in ("none", "after")
    )


def is_opening_alone(flow: Flow, stagings: Sequence[Staging]) -> bool:
    """Whether a convolution before all layers is in no block, while blocks hold all that looks (GC ViT's stem)."""
    first, second = stagings[0], [*stagings[1:2], None][0]
    is_near = second is not None and second.joints[0].stream == end_of((first,))
    is_mixed = first.stage.branches[0].part == "convolution" and first.stage.norm.place != "before"
    return is_mixed and not is_near and id(first) in list_beside(flow, stagings)


def read_stagings(flow: Flow, chain: Chain, sites: Sequence[Site], names: Mapping[int, str]) -> list[Staging]:
    """The stages of a chain: sums whose branches began at one point of the stream are one stage."""
    found: list[Staging] = []
    place = 0
    while place < len(chain.joints):
        together = [chain.joints[place]]
        while place + 1 < len(chain.joints) and chain.joints[place + 1].stream == together[0].stream:
            place += 1
            together.append(chain.joints[place])
        following = chain.joints[place + 1] if place + 1 < len(chain.joints) else None
        after = list_stream_norms(flow, together[-1], following)
        if not after and found and found[-1].stage.norm.is_behind_sum:
            norm = last_norm(flow, chain.end if following is None else together[-1].add)
            begins_next = following is not None and norm is not None and norm.end in following.region.inner
            begins_next = begins_next or together[-1].replaces  # a norm of its own it would end with
            after = [] if norm is None or begins_next else [with_turns(flow, norm)]
        if following is None and after and any(one.stage.norm.times for one in found):
            after = [norm for norm in (after[0], norm_behind(flow, after[0])) if norm is not None]
        stage = read_stage(flow, together, after, sites, names)
        if following is None and after and leaves_bare(found, stage):
            after, stage = [], read_stage(flow, together, [], sites, names)
        goes_on = following is not None or any(one.stage.stream_scale for one in found)
        if goes_on and not after and find_factor_behind(flow, together[-1].add) is not None:
            stage = replace(stage, stage=replace(stage.stage, stream_scale="after"))
        learned = [] if after else list_learned_behind(flow, together[-1].add)
        if learned:
            stage = replace(stage, stage=replace(stage.stage, stream_scale="learned after"), behind=tuple(learned))
        cleared = find_cleared(flow, after[-1].end if after else together[-1].add)
        if cleared is not None and (following or any(one.stage.cleared for one in found)):
            stage = replace(stage, stage=replace(stage.stage, cleared=True), behind=(*stage.behind, cleared))
        found.append(stage)
        place += 1
    return found


def leaves_bare(stagings: Sequence[Staging], last: Staging) -> bool:
    """Whether no sum of the same kind has a norm behind it: that behind the last one is the tower's then (CCT)."""
    kinds = [branch.part for branch in last.stage.branches]
    alike = [one.stage for one in stagings if kinds == [branch.part for branch in one.stage.branches]]
    return bool(alike) and not any(one.norm.is_behind_sum for one in alike)


def norm_behind(flow: Flow, norm: FoundNorm) -> FoundNorm | None:
    """The norm that alone reads what another one makes; None if there is none, or more reads it."""
    readers = flow.readers.get(norm.end, ())
    found = [other for reader in readers if (other := find_any_norm(flow, reader)) is not None]
    return found[0] if len(readers) == 1 == len(found) and found[0].origin == norm.end else None


def own_end(flow: Flow, stagings: Sequence[Staging], chain: Chain) -> int:
    """The step that ends the last stage of a chain: its last sum, its rows put back, or the stage's norm of that."""
    norms = stagings[-1].norms if stagings else ()
    ends = [chain.end, *list_put_back(flow, chain.end)]
    return max([*ends, *(norm.end for norm in norms if norm.origin is not None and norm.origin >= chain.end)])
