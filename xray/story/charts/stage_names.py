"""What a stage and its branches are called."""

from collections.abc import Mapping

from xray.story.anatomy.attentions import ANOTHER_ROW, Attention, DeformableAttention
from xray.story.anatomy.branches import (
    Branch,
    ChannelAttention,
    Context,
    Convolution,
    CurvedAttention,
    Experts,
    FeedForward,
    FourierMixing,
    LinearAttention,
    PlaceMixing,
    PoolMixing,
    Projection,
    Recurrence,
    StreamMixing,
)
from xray.story.anatomy.tree import Stage
from xray.story.body.stages import Staging

NAMES: Mapping[type[Branch], str] = {
    FeedForward: "FEED-FORWARD",
    Experts: "EXPERTS",
    Convolution: "CONVOLUTION",
    Context: "ONE SUM OF PLACES FOR ALL",
    ChannelAttention: "CHANNEL ATTENTION",
    PlaceMixing: "MIXING OF PLACES",
    FourierMixing: "FOURIER MIXING",
    PoolMixing: "MIXING BY POOLING",
    LinearAttention: "LINEAR ATTENTION",
    CurvedAttention: "SELF-ATTENTION WITHOUT SOFTMAX",
}
"""What a panel is called where the kind of its branch alone decides."""


def name_windows(branch: Attention) -> str:
    """What windows are called: grids where their places lie spread over all."""
    return "GRIDS" if branch.spread else "WINDOWS"


def name_branch(branch: Branch) -> str:
    """What a panel is called."""
    if isinstance(branch, Attention):
        if branch.source == "self":
            if branch.beside:
                return "JOINT ATTENTION"
            rolled = "ROLLED " if branch.rolled else ""
            where = " OF ROLLED PLACES" if rolled else ""
            where = f" IN {rolled}{name_windows(branch)} OF {branch.window}" if branch.window else where
            where = f" IN {branch.pieces} PIECES" if branch.pieces and not where else where
            own = "" if branch.foreign_queries else "SELF-"
            return f"{own}ATTENTION{where}" + (f", POOLED {branch.pooled} TO 1" if branch.pooled else "")
        return "CROSS-ATTENTION" + (" TO ANOTHER ROW" if branch.source == ANOTHER_ROW else "")
    if isinstance(branch, DeformableAttention):
        return "DEFORMABLE CROSS-ATTENTION" if branch.leaves_stream else "DEFORMABLE ATTENTION"
    if isinstance(branch, Recurrence):
        return {"state space": "STATE SPACE", "linear attention": "LINEAR ATTENTION"}.get(
            branch.kind or "", "RECURRENCE"
        )
    if isinstance(branch, FeedForward) and branch.gates_beside:
        return "GATED ROWS FROM BESIDE"
    if isinstance(branch, FeedForward) and branch.joined:
        return f"FEED-FORWARD OF {branch.joined} ROWS TO 1"
    if isinstance(branch, Context) and branch.sums:
        return f"{branch.sums} SUMS OF PLACES"
    if isinstance(branch, StreamMixing):
        return f"{branch.streams} STREAMS MIXED"
    if isinstance(branch, Projection):
        return "LINEAR" if branch.layers == 1 else f"{branch.layers} LINEAR LAYERS"
    return NAMES.get(type(branch), "OPERATIONS")


def name_stage(staging: Staging) -> str:
    """What the panel of a stage is called."""
    return join_names(staging.stage, [name_branch(branch) for branch in staging.stage.branches])


def join_names(stage: Stage, names: list[str]) -> str:
    """The names of a stage's branches: beside each other, or one after the other; alike ones counted."""
    runs: list[list[str]] = []
    joins: list[str] = []
    for number, name in enumerate(names):
        if runs and runs[-1][0] == name and not stage.is_beside(number):
            runs[-1].append(name)
        else:
            joins += [" BESIDE " if stage.is_beside(number) else " THEN "] if runs else []
            runs.append([name])
    told = [run[0] if len(run) == 1 else f"{run[0]} × {len(run)}" for run in runs]
    return told[0] + "".join(join + one for join, one in zip(joins, told[1:], strict=True))
