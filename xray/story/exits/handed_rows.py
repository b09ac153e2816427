"""Which of a stream's rows are handed on to what stands behind its layers: one of them, some, or a mean."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.alike_pieces import AlikePieces
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CLAMPS, DROPOUTS, SIDE_BY_SIDE
from xray.story.body.last_norms import POOLINGS
from xray.story.body.naming import list_branchings
from xray.story.body.towers import Towering
from xray.story.branches.operands.sides import find_normed_before, read_sides
from xray.story.branches.rows import PICKS, SWAPS
from xray.story.charts.chart import Chart, Node, steps_at
from xray.story.charts.steps.operations_chart import are_alike
from xray.story.entrance.cut_rows import (
    LET_THROUGH,
    cuts_rows,
    label_cut_end,
    label_cut_rows,
    lets_through,
    takes_by_mask,
)
from xray.story.passages.channels import find_channels, follow
from xray.story.passages.ordered_rows import TAKING
from xray.story.passages.pools import label_pool
from xray.story.recognition.between import is_linear
from xray.story.recognition.chosen_rows import name_row_of_id
from xray.story.recognition.lengths import BY_LENGTH, ITS_LENGTH
from xray.story.streams.rejoined_rows import takes_rows_alone

ALL, ONLY = "ALL ROWS", "THE ONLY ROW"
IN_ORDER = (CARRYING | DROPOUTS) - PICKS - SWAPS
"""What leaves rows in the order in which they are."""
PICTURE = len(("batch", "channels", "height", "width"))


def find_rows(flow: Flow, here: int | None, end: int, drawn: Collection[int]) -> tuple[str, tuple[int, ...]]:
    """Which of a stream's rows are handed on to a step, and the steps that do it; no name where that is not known.

    So where they are rows of what no box among those drawn gives: what comes first there is not known.
    """
    idle: list[int] = []
    while here is not None and here > end:
        laid = name_stacked(flow, here)
        if laid:
            return laid, (here, *idle)
        told = name_rows(flow, here) or name_only_row(flow, here)
        if not told and here not in drawn:
            is_masked = lets_through(flow, here) or takes_by_mask(flow, here)
            told = LET_THROUGH if is_masked else label_cut_end(flow, here) if cuts_rows(flow, here) else ""
        if told:
            given = find_given(flow, flow.makers[here][0])
            is_known = told == ONLY or given is None or given <= end or given in drawn
            return (told, (here, *idle)) if is_known else ("", ())
        weighed = find_weighed_mean(flow, here)
        if weighed:
            return "A WEIGHED MEAN OF ROWS", (*weighed, *idle)
        if is_of_one_place(flow, here):
            idle.append(here)
        elif flow.op(here) not in CARRYING | DROPOUTS or not flow.makers[here]:
            break
        here = flow.makers[here][0]
    return (ALL if here == end else ""), ()


def name_stacked(flow: Flow, node: int) -> str:
    """Which of several tensors a step takes that were stacked, as each layer's (ACT); "" for any other."""
    place, way = str(flow.steps[node].settings.get("index", "")), list[int]()
    here = flow.makers[node][0] if flow.op(node) == "index" and place.lstrip("-").isdecimal() else None
    while here is not None and flow.op(here) in CARRYING and flow.makers[here]:
        way.append(here)
        here = flow.makers[here][0]
    if here is None or flow.op(here) != "stack" or flow.steps[here].settings.get("dim", 0) != 0:
        return ""
    count, number = len(flow.steps[here].inputs), int(place)
    if count < 2 or follow(flow, way, 0) != 0:
        return ""
    told = {0: "THE FIRST", count - 1: "THE LAST"}.get(number % count, f"NUMBER {number % count + 1}")
    return f"{told} OF {count} STACKED"


def find_given(flow: Flow, maker: int | None) -> int | None:
    """The step whose rows others give on in their order, all of them."""
    while maker is not None and flow.makers[maker]:
        is_whole = prod(flow.output(maker).shape) == prod(flow.steps[maker].inputs[0].shape)
        if flow.op(maker) not in IN_ORDER and not (flow.op(maker) in PICKS and is_whole):
            return maker
        maker = flow.makers[maker][0]
    return maker


def tell_pooled(flow: Flow, node: Node, end: int, drawn: Collection[int]) -> Node:
    """The same, called by which row of the stream it reads, if not all of them go into it; of a join both are told."""
    places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
    makers = [maker for maker in flow.makers[min(places)] if maker is not None] if places else []
    is_join = bool(places) and len(makers) > 1 and flow.op(min(places)) in SIDE_BY_SIDE
    if not is_join and any(end in flow.behind(maker) for maker in makers[1:]):
        return node  # it brings several rows of the stream together
    found = [find_rows(flow, maker, end, drawn) for maker in (makers if is_join else makers[:1])]
    named = {told for told, _ in found}
    alike = [one for one in places if is_linear(flow, one)] or places  # several, each of a row of its own (SAM)
    if not named or "" in named or named == {ALL} or are_alike(flow, alike):
        return node
    steps = (*node.steps, *steps_at(flow, *(place for _, read in found for place in read)))
    told = [told for told, _ in found]
    is_length = node.label.startswith(ITS_LENGTH)
    of_rows = node.label.replace(ITS_LENGTH, f"{told[0]} {BY_LENGTH}") if is_length else f"{node.label} OF {told[0]}"
    label = " BESIDE ".join(told) if is_join else of_rows
    return replace(node, label=label, steps=steps)


def find_weighed_mean(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that add up rows, each times a number of its own, and divide them by the sum of those; or none."""
    if flow.op(node) not in ("div", "div_") or len(flow.makers[node]) != 2:
        return ()
    added, count = (maker for maker in flow.makers[node])
    if added is None or count is None or flow.op(added) != "sum":
        return ()
    weighed = flow.makers[added][0]
    before, after = flow.steps[added].inputs[0].shape, flow.output(added).shape
    if weighed is None or flow.op(weighed) != "mul" or len(before) != 3 or after != (before[0], before[2]):
        return ()
    of_counts = flow.carried_from(count, CARRYING | CLAMPS)
    weights = {maker for record, maker in flow.given(weighed) if record.shape[-1:] == (1,)}
    is_mean = of_counts is not None and flow.op(of_counts) == "sum" and flow.makers[of_counts][0] in weights
    return (node, added, weighed, of_counts) if is_mean and of_counts is not None else ()


def name_rows(flow: Flow, node: int) -> str:
    """Which of a stream's rows a step hands on as one: the first, the last, another one, or their mean."""
    step = flow.steps[node]
    before, after = (step.inputs[0].shape if step.inputs else ()), flow.output(node).shape
    if step.op in POOLINGS and not keeps_each(flow, node):
        return ""
    if step.op in POOLINGS and len(before) == PICTURE:
        is_mean = after in (before[:2], (*before[:2], 1, 1)) and not is_of_one_place(flow, node)
        return "A MEAN OF PLACES" if is_mean else ""
    if step.op in POOLINGS and len(before) == 3 and after == before[:2] and are_laid_maps(flow, flow.makers[node][0]):
        return "A MEAN OF PLACES"
    if step.op in POOLINGS and len(before) == 3:
        is_along = after == (*before[:2], 1) and find_channels(flow, flow.makers[node][0] or node) == 1
        is_one = is_along or (before[:1], before[2:]) == (after[:1], after[-1:])
        told = ONLY if before[1] == 1 else "A MEAN OF ROWS"  # what queries found, say (AIMv2)
        return told if is_one and prod(after) == prod(before[:1]) * max(after[1:]) else ""
    place = find_row(flow, node)
    told = {"0": "THE FIRST ROW", "-1": "THE LAST ROW"}.get(place, "") or name_row_of_id(flow, node)
    if place and before[-2] == 1:
        return ONLY
    return told or "ONE ROW OF EACH" * bool(place)


def is_of_one_place(flow: Flow, node: int) -> bool:
    """Whether a step takes the mean of maps of one place each: it only moves numbers (RegionViT)."""
    before = next((record.shape for record in flow.steps[node].inputs), ())
    return flow.op(node) in POOLINGS and len(before) == PICTURE and before[2:] == (1, 1)


def name_only_row(flow: Flow, node: int) -> str:
    """Which row of each sequence a step takes alone that leaves it its axis; "" for any other."""
    return label_cut_rows(flow, node) if takes_rows_alone(flow, node) and flow.output(node).shape[1] == 1 else ""


def find_row(flow: Flow, node: int) -> str:
    """Which row of each sequence a step takes alone, as it is written; "" for any other step.

    Be it of several sequences for each of the batch, as are those of several prompts (SAM). A mask may name several
    of one sequence.
    """
    step = flow.steps[node]
    before, after = (step.inputs[0].shape if step.inputs else ()), flow.output(node).shape
    if step.op not in ("index", "select") or len(before) < 3 or (*before[:-2], before[-1]) != after:
        return ""
    if not keeps_each(flow, node) or any(one.dtype == "bool" for one in step.inputs[1:]):
        return ""
    if len(before) > 3 and find_channels(flow, flow.makers[node][0] or node) != len(before) - 1:
        return ""
    parts, row = str(step.settings.get("index", "")).split(", "), len(before) - 2
    whole = len(parts) > row and {*parts[:row], *parts[row + 1 :]} == {":"}
    return str(parts[row] if step.op == "index" and whole else step.settings.get("index"))


def keeps_each(flow: Flow, node: int) -> bool:
    """Whether a step that takes one place or a mean along some axes keeps each sequence, and each number of a row.

    Told by the axes that are written: their sizes may be the same, as where a batch is as long as its sequences.
    """
    given, settings = flow.steps[node].inputs[0], flow.steps[node].settings
    parts = [part for part in str(settings.get("index", "")).split(", ") if part != "None"] or [""]
    many = len(given.shape)
    ahead = many - len(parts) if parts[0] == "..." else 0
    axes = {place + ahead for place, part in enumerate(parts) if part.lstrip("-").isdecimal()}
    if flow.op(node) != "index":
        said = str(settings.get("other" if flow.op(node) == "select" else "dim", ""))
        axes = {int(axis) % many for axis in re.findall(r"-?\d+", said)}
    kept = {0} if given.axes[:1] == ("batch",) else set[int | None]()
    return axes.isdisjoint(kept | {find_channels(flow, one) for one in flow.makers[node][:1] if one is not None})


def are_laid_maps(flow: Flow, node: int | None) -> bool:
    """Whether a step lays rows and columns of maps end to end, their channels before these (SwiftFormer)."""
    if node is None or flow.op(node) not in CARRYING or not flow.steps[node].inputs:
        return False
    return len(flow.steps[node].inputs[0].shape) == PICTURE and find_channels(flow, node) == 1


def name_mean(flow: Flow, node: int) -> str:
    """What a step is called that makes rows or places fewer by taking means of them; "" for any other."""
    if flow.op(node) not in POOLINGS:
        return ""
    return name_rows(flow, node) or (label_pool(flow, node) if flow.op(node) == "avg_pool2d" else "")


def find_mean_of_laid(flow: Flow, node: int) -> int | None:
    """The mean, along one axis, of all rows that a step lays out by ids of several axes (Kimi K2.5's eye)."""
    step = flow.steps[node]
    if flow.op(node) not in TAKING or len(step.inputs) != 2 or len(step.inputs[0].shape) != 2:
        return None
    rows, order = step.inputs
    is_laid = flow.output(node).shape == (*order.shape, rows.shape[-1]) and prod(order.shape) == rows.shape[0]
    readers = flow.leaf_readers(node)
    if not is_laid or len(order.shape) < 2 or order.is_float or order.dtype == "bool" or len(readers) != 1:
        return None
    axis = flow.steps[readers[0]].settings.get("dim")
    is_mean = flow.op(readers[0]) == "mean" and isinstance(axis, int) and 0 <= axis < len(order.shape)
    return readers[0] if is_mean else None


def takes_every(flow: Flow, node: int) -> int | None:
    """Of how many rows of each sequence that follow one another a step takes the first; None for any other step."""
    parts = str(flow.steps[node].settings.get("index", "")).split(", ")
    is_even = takes_rows(flow, node) and len(parts) == 2 and parts[0] == ":" and parts[1].startswith("::")
    return int(parts[1][2:]) if is_even and parts[1][2:].isdecimal() else None


def takes_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes some rows of each sequence, and leaves the others."""
    before, after = (record.shape for record in (flow.steps[node].inputs[0], flow.output(node)))
    are_rows = len(before) == len(after) == len(("batch", "row", "width"))
    return flow.op(node) == "index" and are_rows and before[::2] == after[::2] and 1 < after[1] < before[1]


def list_normed_before(flow: Flow, towers: Sequence[Towering]) -> frozenset[int]:
    """The norms of rows of other towers that several attentions of one read: they are none of these (X-CLIP)."""
    looking = [(one.site, one.region) for tower in towers for one in list_branchings(tower)]
    sides = [(side, region) for site, region in looking if site for side in read_sides(flow, site, region)]
    norms = (
        find_normed_before(flow, node, region) for side, region in sides if not side.is_own for node in side.projections
    )
    return frozenset(node for norm in norms if norm is not None for node in norm.nodes)


def label_pieces(pieces: Collection[AlikePieces]) -> dict[int, str]:
    """What the steps are called that cut rows into pieces which go the same way, and that put these end to end."""
    cuts = {one.cut: f"1 OF {len(one.ways):,} PIECES" for one in pieces}
    return cuts | {one.join: f"{len(one.ways):,} PIECES END TO END" for one in pieces}


def hold_twins(flow: Flow, chart: Chart, pieces: Collection[AlikePieces]) -> Chart:
    """The chart whose boxes of what is done to the first piece hold the steps that do it to the others."""
    twins = {node: one.list_twins(node) for one in pieces for node in one.ways[0]}

    def hold(node: Node) -> Node:
        own = [one for step in node.steps for one in twins.get(flow.places[step.id], ())]
        return replace(node, steps=(*node.steps, *steps_at(flow, *own))) if own else node

    return replace(chart, nodes=tuple(map(hold, chart.nodes))) if pieces else chart
