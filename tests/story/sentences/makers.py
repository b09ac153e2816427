"""Parts and whole networks of which little is known, from which pools are made."""

from dataclasses import replace

from xray.story.anatomy.attentions import Attention, DeformableAttention
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.anatomy.branches import (
    Experts,
    FeedForward,
    Routing,
    StateHeads,
)
from xray.story.anatomy.tree import Anatomy, Group, Norm, Stage, Tower

SILENT = Attention(source="self", heads=None, kv_heads=None, d_k=None, d_v=None)
"""An attention of which nothing is known."""
FALSE = replace(
    SILENT,
    heads=5,
    kv_heads=5,
    d_k=7,
    d_v=7,
    positions="none",
    qk_norm=False,
    sinks=False,
    gate=False,
    kernel="plain",
    rolled=False,
)
"""An attention of which all that is special is known not to be there."""
SAMPLED = DeformableAttention(source="self", heads=5, d_v=7, levels=3, points=4)
PLAIN, GATED = FeedForward(140, "relu", gated=False), FeedForward(140, "silu", gated=True, fused=False)
EXPERTS = Experts(8, 2, 0, 140, "relu", gated=False)
ROUTING = Routing("sigmoid", None, divided_by_sum=True, factor=None, groups=None, biased=False)
STATE_HEADS = StateHeads(3, 6, 5, 7)
NO_NORM = Norm(None, "none")


def share_in_part(whole):
    """The same network, its layers with some weights of their own and some in common."""
    (tower,) = whole.towers
    groups = tuple(replace(group, shared_in_part=True) for group in tower.groups)
    return replace(whole, towers=(replace(tower, groups=groups),))


def run_in_turns(whole):
    """The same network, its layers run again behind another stack."""
    (tower,) = whole.towers
    own, again = tower.groups[0], len(tower.groups[0].layers)
    turns = [replace(own, layers=tuple(layer + turn * again for layer in own.layers)) for turn in range(3)]
    groups = (*turns[:2], replace(turns[2], weights_of=own.layers))
    return replace(whole, towers=(replace(tower, groups=groups),))


def make_tower(*branches, norm=NO_NORM, shared=False, parallel=False, scale=None):
    stages = (
        (Stage(branches, True, norm),) if parallel else tuple(Stage((one,), False, norm, scale) for one in branches)
    )
    return Tower("text", "ids", None, 35, 61, (), (Group((0, 1), stages, 35, shared),), None)


def make_anatomy(*branches, head=None, links=(), **tower):
    return Anatomy((make_tower(*branches, **tower),), links, head, None, None)


COLUMNS = EntrancePart("table", 19, columns=((0,), (2,)), argument="bbox")


def enter_layers(anatomy, *parts):
    """The same with what stands before its layers."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], entrance=parts),))


def norm_layers(anatomy, *norms):
    """The same with a group of two layers for each norm, in a row, that stands before what they do."""
    (tower,) = anatomy.towers
    (stage,), count = tower.groups[0].stages, len(tower.groups[0].layers)
    groups = (
        replace(tower.groups[0], layers=(count * place, count * place + 1), stages=(replace(stage, norm=norm),))
        for place, norm in enumerate(norms)
    )
    return replace(anatomy, towers=(replace(tower, groups=tuple(groups)),))


def bridge_layers(anatomy, *bridges):
    """The same with what stands between its layers."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], bridges=bridges),))


def stream_layers(anatomy, count):
    """The same with so many streams side by side."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], streams=count),))


def add_rows(anatomy, count):
    """The same with rows of another tower behind so many layers."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], rows_added=tuple(range(count))),))


def number_blocks(anatomy, **facts):
    """The same with other facts of its numbered blocks."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], **facts),))


def change_stages(anatomy, **facts):
    """The same with other facts of its stages."""
    (group,) = anatomy.towers[0].groups
    group = replace(group, stages=tuple(replace(stage, **facts) for stage in group.stages))
    return replace(anatomy, towers=(replace(anatomy.towers[0], groups=(group,)),))
