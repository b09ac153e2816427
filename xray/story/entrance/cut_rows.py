"""Rows that are left out at an end of each sequence, and what the step is called that does so."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.story.recognition.between import list_reading_data


def cuts_rows(flow: Flow, node: int) -> bool:
    """Whether a step leaves out rows at an end of each sequence that was worked out of the input (LLaVA).

    One row that is left has a box where others that are cut off are put behind it again (DINOv2 with registers).
    """
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    are_rows = len(before) == len(after) == len(("batch", "row", "width")) and before[::2] == after[::2]
    if not are_rows or not 0 < after[1] < before[1] or prod(after) == 0 or node not in list_reading_data(flow):
        return False
    return after[1] > 1 or is_joined_again(flow, node)


def is_joined_again(flow: Flow, node: int) -> bool:
    """Whether what a step cuts off is put beside another part of the same rows again."""
    joins = [reader for reader in flow.readers.get(node, ()) if flow.op(reader) in SIDE_BY_SIDE]
    parts = {one for join in joins for one in flow.makers[join] if one is not None and flow.op(one) == "index"}
    return any(one != node and flow.makers[one][:1] == flow.makers[node][:1] for one in parts)


def label_cut_rows(flow: Flow, node: int) -> str:
    """What a step is called that leaves rows out: by how many, and at which end; else by how many it takes."""
    before, after = flow.steps[node].inputs[0].shape[1], flow.output(node).shape[1]
    parts = str(flow.steps[node].settings.get("index", "")).split(", ")
    rows, left = parts[1] if len(parts) > 1 else "", before - after
    one = {":1": "FIRST", "0:1": "FIRST", "-1:": "LAST"}.get(rows)
    if after == 1 and one is not None:
        return f"THE {one} ROW"
    end = {f"{left}:": "FIRST", f":-{left}": "LAST"}.get(rows)
    if end is None:
        return f"{after:,} OF {before:,} ROWS"
    return f"ALL ROWS BUT THE {end}{f' {left:,}' * (left > 1)}"
