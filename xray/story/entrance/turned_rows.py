"""Rows that are turned on their way into a stream, by cosines and sines that no row is worked into."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SIDE_BY_SIDE, WAVES
from xray.story.blocks.rotations import list_rotations
from xray.story.recognition.turning import is_cut


def find_turned(flow: Flow, nodes: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The steps that end a turn of rows, each with all that it stands for: the turn, and what its tables are made by.

    Where some numbers of each row are turned alone, the others come by, and both are laid side by side at the end.
    """
    leaves = sorted(node for node in nodes if flow.is_leaf(node))
    tables = list_tables(flow, leaves)
    if not tables:
        return {}
    rows, found = set(leaves) - tables, dict[int, tuple[int, ...]]()
    for turn in list_rotations(flow, rows):
        if not rows.issuperset(turn):
            continue
        steps = {*turn, *list_beside(flow, max(turn))}
        made = flow.behind(*(maker for node in turn for maker in flow.makers[node]), within=tables.__contains__)
        found[max(steps)] = tuple(sorted({*steps, *made}))
    return found


def list_tables(flow: Flow, nodes: Collection[int]) -> set[int]:
    """The steps that make cosines and sines, of what they are made, and what moves them alone."""
    waves = [node for node in nodes if flow.op(node) in WAVES]
    found = {*waves, *flow.behind(*waves, within=set(nodes).__contains__)}
    for node in nodes:
        makers = [maker for record, maker in flow.given(node) if maker is not None and record.is_float]
        if flow.op(node) in CARRYING and makers and found.issuperset(makers[:1]):
            found.add(node)
    return found


def list_beside(flow: Flow, turned: int) -> tuple[int, ...]:
    """The step that lays numbers that are not turned beside those that are, with the one that cuts them off."""
    for join in flow.readers.get(turned, ()):
        makers = [maker for maker in flow.makers[join] if maker is not None and maker != turned]
        if flow.op(join) not in SIDE_BY_SIDE or len(makers) != 1 or len(flow.makers[join]) != 2:
            continue
        if is_cut(flow, makers[0]) and flow.makers[makers[0]][0] in set(flow.behind(turned)):
            return makers[0], join
    return ()


def label_turned(flow: Flow, end: int) -> str:
    """What a turn is called, with how many numbers of each row it turns, where it does not turn all."""
    whole = flow.output(end).shape[-1]
    cuts = flow.makers[end] if flow.op(end) in SIDE_BY_SIDE else ()
    left = sum(flow.output(maker).shape[-1] for maker in cuts if maker is not None and is_cut(flow, maker))
    return f"ROTATE {whole - left:,} OF {whole:,} NUMBERS" if left else "ROTATE"
