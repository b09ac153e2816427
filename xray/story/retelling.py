"""A transformer recognised in any trace: which part of X-Ray's own model each recorded step would be.

Nothing is known of a recording but what its steps did to which tensors. Attention is found first: softmax over a
product, and a weighted sum. From there the ways lead back to the projections, forward to the residual sums, along the
stream from sublayer to sublayer, and so to layers, stacks, embeddings and head. Names of modules play no part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.trace import Pass
from xray.story.recognition.attention_sites import Site, find_sites
from xray.story.recognition.dataflow import Flow, read_flow
from xray.story.recognition.families import Family, Sides, choose_sides, name_family
from xray.story.recognition.retold_pass import retell_pass
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.stacks import Stack, find_stacks
from xray.story.recognition.sublayers import find_sublayers


@dataclass(frozen=True)
class ReadPass:
    """A pass with its data flow, its attentions, and the stacks that they stand in."""

    flow: Flow
    sites: tuple[Site, ...]
    stacks: tuple[Stack, ...]


def read_pass(one_pass: Pass) -> ReadPass:
    """The attentions and the stacks of a pass."""
    flow = read_flow(one_pass)
    sites = tuple(find_sites(flow))
    stacks = find_stacks(flow, find_sublayers(flow, sites)) if sites else ()
    return ReadPass(flow, sites, stacks)


def retell_passes(read: Sequence[ReadPass]) -> tuple[Family, list[Retold]] | None:
    """The family and every pass with a stack in it, retold; None if no pass has one."""
    pairs = [(one.flow, one.stacks) for one in read if one.stacks]
    if not pairs:
        return None
    sides = choose_sides(pairs)
    family = name_family(pairs, sides)
    if family == "decoder-only":
        sides = [Sides(None, side.decoder or side.encoder) for side in sides]
    return family, [retell_pass(flow, side) for (flow, _), side in zip(pairs, sides, strict=True)]
