"""A transformer recognised in any trace, and retold in the words of X-Ray's own model.

Nothing is known of a recording but what its steps did to which tensors. Attention is found first: softmax over a
product, and a weighted sum. From there the ways lead back to the projections, forward to the residual sums, along the
stream from sublayer to sublayer, and so to layers, stacks, embeddings and head. Names of modules play no part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.trace import Pass, PassKind
from xray.story.recognition.attention_sites import Site, find_sites
from xray.story.recognition.dataflow import Flow, read_flow
from xray.story.recognition.families import Family, Sides, choose_sides, name_family, name_passes
from xray.story.recognition.operation_kinds import CARRYING, REPEATS
from xray.story.recognition.retold_pass import retell_pass
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.stacks import Stack, find_stacks
from xray.story.recognition.sublayers import find_sublayers

PICKS = frozenset({"index_select", "gather", "reorder"})
"""Steps between two passes that only choose rows, as a beam search does."""


@dataclass(frozen=True)
class ReadPass:
    """A pass with its data flow, its attentions, and the stacks that they stand in."""

    flow: Flow
    sites: tuple[Site, ...]
    stacks: tuple[Stack, ...]


@dataclass(frozen=True)
class ToldPass:
    """A pass that was retold, under its new kind and number."""

    kind: PassKind
    number: int
    told: Retold
    sides: Sides


def read_pass(one_pass: Pass) -> ReadPass:
    """The attentions and the stacks of a pass."""
    flow = read_flow(one_pass)
    sites = tuple(find_sites(flow))
    stacks = find_stacks(flow, find_sublayers(flow, sites)) if sites else ()
    return ReadPass(flow, sites, stacks)


def retell_passes(read: Sequence[ReadPass]) -> tuple[Family, list[ToldPass]] | None:
    """The family and every pass with a stack in it, retold; None if no pass has one."""
    read = [one for one in read if one.stacks]
    if not read:
        return None
    pairs = [(one.flow, one.stacks) for one in read]
    sides = choose_sides(pairs)
    family = name_family(pairs, sides)
    if family == "decoder-only":
        sides = [Sides(None, side.decoder or side.encoder) for side in sides]
    named = name_passes([one.flow for one in read], sides, family)
    told: list[ToldPass] = []
    earlier: dict[str, str] = {}
    for one, side, (kind, number) in zip(read, sides, named, strict=True):
        told.append(ToldPass(kind, number, retell_pass(one.flow, side, earlier), side))
        told[-1].told.settle_earlier()
        note_makers(told[-1].told, f"{kind}{number or ''}", earlier)
    return family, told


def note_makers(told: Retold, key: str, earlier: dict[str, str]) -> None:
    """Note for later passes what each step of this one stands for, also those that only move what another made.

    A recording names a step of an earlier pass by its id, or by pass and id ("decode1:append#0") where it has a step of
    that id too; so does a retelling.
    """
    one_pass = told.flow.one_pass
    for place, step in enumerate(told.flow.steps):
        identity = told.owners.get(place)
        if identity is None and step.op in CARRYING | REPEATS | PICKS:
            identity = told.source_of(step.outputs[0], place) if step.outputs else None
        if identity is not None:
            known = identity if ":" in identity else f"{key}:{identity}"
            earlier[step.id] = earlier[f"{one_pass.kind}{one_pass.number or ''}:{step.id}"] = known
