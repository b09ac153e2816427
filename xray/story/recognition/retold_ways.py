"""The way of queries, keys or values under canonical paths."""

from xray.story.recognition.retold_moves import add_moves, linear_core, moves_in
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.way_parts import WayPart


def add_projection(told: Retold, path: str, part: WayPart) -> None:
    """A projection."""
    core = linear_core(told.flow, part.nodes)
    told.add(path, sorted({*core, *part.nodes}), core=core)


def add_part(told: Retold, path: str, name: str, part: WayPart) -> None:
    """One part of a way; a split is a block of its moves."""
    if part.kind == "turn":
        own = f"{path}.transpose_key"
    elif part.kind == "scale":
        own = f"{path}.scale" if name == "query" else f"{path}.scale_{name}"
    else:
        own = f"{path}.{part.kind}_{name}"
    if part.kind == "split" and len(moves_in(told.flow, part.nodes)) > 1:
        add_moves(told, own, part.nodes)
    else:
        told.add(own, part.nodes)
