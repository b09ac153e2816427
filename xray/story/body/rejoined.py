"""Layers in which some sublayers work on a part of the rows alone; the others go a way of their own (InstructBLIP)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.story.anatomy.branches import Branch, Unknown
from xray.story.body.layers import Layer
from xray.story.body.stages import Staging, list_paths, read_branch
from xray.story.passages.bridges import end_of
from xray.story.streams.rejoined_rows import RejoinedRows, find_added, find_rejoined, takes_rows_alone


def tell_rejoined(flow: Flow, layer: Layer, sites: Sequence[Site], towers: Mapping[int, str]) -> Layer:
    """A layer, its stages told where rows are taken and where they are put end to end again; as it is where none are.

    Where the other rows look at anything, they are a tower of their own.
    """
    for place, staging in enumerate(layer):
        cut = staging.joints[0].stream
        if cut is None or not takes_rows_alone(flow, cut) or reads_whole(flow, staging, cut):
            continue
        rows = find_rejoined(flow, end_of(layer), cut)
        if rows is None or any(site.softmax in rows.nodes for site in sites):
            continue
        told = [*layer]
        told[place] = replace(staging, taken=cut)
        last = told[-1]
        stage = replace(last.stage, others=read_others(flow, rows, sites, towers))
        told[-1] = replace(last, stage=stage, rejoined=rows)
        return tuple(told)
    return layer


def reads_whole(flow: Flow, staging: Staging, cut: int) -> bool:
    """Whether a stage reads beside the rows that it works on all those that they were taken out of (VOLO)."""
    own = (node for joint in staging.joints for node in joint.region.inner | joint.region.beside)
    return any(flow.makers[cut][0] in flow.makers[node] for node in own)


def read_others(flow: Flow, rows: RejoinedRows, sites: Sequence[Site], towers: Mapping[int, str]) -> tuple[Branch, ...]:
    """What the other rows go through; nothing where they go by as they are."""
    if rows.way is None:
        return ()
    added = find_added(flow, rows)
    return (
        Unknown(list_paths(flow, rows.way.inner)) if added is None else read_branch(flow, added, sites, towers).branch,
    )
