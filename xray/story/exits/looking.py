"""An attention behind a tower's layers in which its rows look at what another tower gives: SAM 3's maps at words."""

from collections.abc import Collection

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SCALINGS
from xray.story.attention.factors import name_factors, read_alpha
from xray.story.exits.other_ways import Ways
from xray.story.recognition.scored_parts import read_scored


def list_looking(flow: Flow, inner: Collection[int]) -> list[Site]:
    """The attentions among the steps of an exit whose keys and values are layers of rows that are none of the exit's.

    Between scores and softmax there are no more than factors.
    """
    found = []
    for site in list_sites(flow):
        sides = [way.projection for way in (site.key, site.value)]
        is_apart = all(node is not None and node not in inner for node in sides)
        plain = all(part.kind in ("scale", "softmax") for part in read_scored(flow, site.scored))
        if is_apart and plain and {site.query.projection, site.scores, site.weighted_sum} <= {*inner}:
            found.append(site)
    return found


def lead_in(sites: Collection[Site]) -> Ways:
    """The products of such attentions, each with the steps that make what it reads of the other tower."""
    return {one.scores: frozenset(one.key.nodes) for one in sites} | {
        one.weighted_sum: frozenset(one.value.nodes) for one in sites
    }


def label_looking(flow: Flow, sites: Collection[Site]) -> dict[int, str]:
    """What the steps of such attentions are called."""
    labels: dict[int, str] = {}
    for one in sites:
        scales = [part for part in read_scored(flow, one.scored) if part.kind == "scale"]
        factor = name_factors(flow, one, scales, own=read_alpha(flow, one))
        letters = (("Q", one.query), ("K", one.key), ("V", one.value))
        labels |= {way.projection: f"LINEAR {letter}" for letter, way in letters if way.projection is not None}
        labels |= {one.scores: f"SCORES Q·K^T {factor}".strip(), one.weighted_sum: "WEIGHTS · V"}
        labels |= {} if one.output is None else {one.output: "LINEAR O"}
    return labels


def fold_scales(flow: Flow, sites: Collection[Site]) -> dict[int, tuple[int, ...]]:
    """The steps that multiply scores by a number, by the product that made these."""
    scales = {one.scores: [node for node in one.scored if flow.op(node) in SCALINGS] for one in sites}
    return {scores: (scores, *nodes) for scores, nodes in scales.items() if nodes}
