"""Sublayers without a sum: what the first attention of a tower gives takes the stream's place (SAM)."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.story.recognition.between import find_region, strip_plain
from xray.story.streams.chains import Chain
from xray.story.streams.joints import Joint, root_of


def begin_with_replaced(flow: Flow, chains: Sequence[Chain], sites: Sequence[Site]) -> list[Chain]:
    """The chains of a tower, the first begun with the attention that makes its stream, if there is one."""
    first, *rest = chains
    joint = find_replaced(flow, first, sites)
    return list(chains) if joint is None else [replace(first, joints=[joint, *first.joints]), *rest]


def find_replaced(flow: Flow, chain: Chain, sites: Sequence[Site]) -> Joint | None:
    """The attention that makes the stream of a chain, and to which nothing is added; None if another thing makes it.

    It looks at itself, as long as the stream is, and another one of the chain is of the same class.
    """
    made = root_of(flow, chain.start)
    site = next((one for one in sites if one.output is not None and one.output == made), None)
    if site is None or made is None or site.kind != "self" or site.value.origin is None:
        return None
    others = [one for one in sites for joint in chain.joints if one.softmax in joint.region.inner]
    if class_of(flow, site) not in [class_of(flow, one) for one in others]:
        return None
    stream = strip_plain(flow, site.value.origin)
    region = None if stream is None else find_region(flow, stream, made)
    if region is None or stream is None or flow.output(stream).shape != flow.output(made).shape:
        return None
    return Joint(made, stream, region, replaces=True)


def class_of(flow: Flow, site: Site) -> str:
    """The class of the module that holds an attention's output projection."""
    parent = None if site.output is None else flow.places.get(flow.steps[site.output].parent or "")
    return "" if parent is None else flow.steps[parent].module
