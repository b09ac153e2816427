"""What moves on the way of queries, keys or values are called that give rows another shape."""

from collections.abc import Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import COPIES, TURNS
from xray.ir.records import TensorRecord
from xray.story.attention.ways.lanes import Part
from xray.story.charts.norms_apart import AXES_SWAPPED, CUT_ANEW
from xray.story.exits.handed_rows import find_row

CUT_SMALLER = "CUT SMALLER"


def only_turns(flow: Flow, part: Part) -> bool:
    """Whether a move changes the order of axes, and does nothing else."""
    return all(flow.op(node) in TURNS | COPIES for node in part.nodes)


def label_cut(flow: Flow, part: Part) -> str:
    """What a move is called that gives rows another shape: with how many numbers of each row go on, if not all do."""
    given = flow.steps[part.nodes[0]].inputs
    before, after = (given[0].shape if given else ()), part.record.shape
    is_less = before[:-1] == after[:-1] and after[-1:] < before[-1:]
    if len(part.nodes) == 1 and [one.shape for one in flow.steps[part.nodes[0]].outputs] == [after, after]:
        return "CUT INTO TWO HALVES"
    if is_less:
        return f"CUT: {after[-1]:,} OF {before[-1]:,}"
    made = (one for one in flow.steps[part.nodes[0]].outputs if prod(one.shape) == prod(after))
    if taken := [one.shape[1] for one in made if takes_rows(before, one.shape) and one.axes[1] != "batch"]:
        return f"{taken[0]:,} OF {before[1]:,} ROWS"
    if cuts_smaller(flow, part):
        return CUT_SMALLER
    if only_turns(flow, part) and len(before) == len(after):
        return AXES_SWAPPED
    if (before[:1], before[-1:]) != (after[:1], after[-1:]) or prod(before) != prod(after):
        return CUT_ANEW
    if (len(before), len(after)) == (3, 4):
        return f"LAID OUT IN {after[1]} ROWS OF {after[2]}" if after[1] > 1 else "AN AXIS OF 1 PUT IN"
    return "LAID OUT IN ONE ROW" if (len(before), len(after)) == (4, 3) else CUT_ANEW


def cuts_smaller(flow: Flow, part: Part) -> bool:
    """Whether a part takes a piece of what it is given, and does nothing else."""
    given = [flow.steps[node].inputs for node in part.nodes if flow.op(node) == "index"]
    is_alone = all(flow.op(node) in COPIES | {"index"} for node in part.nodes)
    is_cut = bool(given) and all(len(one) == 1 for one in given)
    return is_alone and is_cut and len(given[0][0].shape) == len(part.record.shape)


def label_map(before: TensorRecord, after: TensorRecord) -> str:
    """What a move is called that lays places, their channels first, out in a map; empty for any other."""
    is_laid = len(before.shape) == 3 and before.axes[1] in ("d_k", "d_v") and before.shape[:2] == after.shape[:-2]
    return f"LAID OUT AS A MAP OF {after.shape[2]:,}×{after.shape[3]:,}" if is_laid else ""


def label_rows(flow: Flow, part: Part) -> str:
    """What a move is called that stands before a linear layer: which rows it takes, or how it lays them out.

    Rows of which it only takes an axis of 1 off lay there as they are (Funnel's, which were pooled).
    """
    given = flow.steps[part.nodes[0]].inputs[0]
    before, after = given.shape, part.record.shape
    if len(before) > len(after) and [one for one in before if one > 1] == [one for one in after if one > 1]:
        return AXES_SWAPPED if any(flow.op(one) in TURNS for one in part.nodes) else "AN AXIS OF 1 TAKEN OFF"
    told = {"0": "THE FIRST ROW", "-1": "THE LAST ROW"}.get(find_row(flow, part.nodes[-1]), "")
    return told if told and len(part.nodes) == 1 and given.axes[1:2] != ("batch",) else label_cut(flow, part)


def takes_rows(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether some rows of each sequence are left, as wide as they were."""
    return len(before) == len(after) == 3 and before[::2] == after[::2] and after[1] < before[1]
