"""Windows that only other attentions of the same stream prove: some see fewer places at once than the widest do."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.story.anatomy.tree import Attention, Branch
from xray.story.body.stages import Branching, Staging, change_branches


def tell_windows(flow: Flow, stagings: Sequence[Staging]) -> list[Staging]:
    """Stages with the windows of attentions that see fewer places at once than others of the same stream do.

    Rows of several images are cut up for each image, so that a part by itself tells no window (Qwen2.5-VL). Windows may
    be sequences of their own, as they are between attentions to whole images (LW-DETR).
    """
    squares = {
        id(one): square for staging in stagings for one in staging.branches if (square := read_square(flow, one))
    }

    def tell(one: Branching) -> Branch:
        size, rows = squares.get(id(one), (0, ()))
        whole = max((other for other, stream in squares.values() if stream == rows), default=0)
        if size == whole or not isinstance(one.branch, Attention):
            return one.branch
        return replace(one.branch, window=size, rolled=False)

    return [change_branches(staging, tell) for staging in stagings]


def read_square(flow: Flow, found: Branching) -> tuple[int, tuple[int, ...]] | None:
    """How many places an attention puts side by side, and the shape of the stream; None where it asks other ones."""
    branch, site = found.branch, found.site
    if site is None or not isinstance(branch, Attention) or branch.source != "self" or branch.window is not None:
        return None
    square, stream = flow.output(site.scores).shape, flow.output(found.region.end).shape
    if len(square) != len(("batch", "heads", "row", "row")) or square[-1] != square[-2] or branch.causal is not False:
        return None
    is_part = square[0] == 1 and prod(stream[:-1]) == stream[-2]
    return (square[-1], stream) if is_part or square[0] * square[-1] == prod(stream[:-1]) else None
