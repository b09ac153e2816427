"""The steps of a way of queries, keys or values in runs, and what each of these does."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.index_spans import read_span
from xray.ir.flow.operation_kinds import (
    CARRYING,
    DROPOUTS,
    JOINS,
    PLACING,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
    WRITES,
    ZEROS,
)
from xray.ir.flow.projections import is_product
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.story.recognition.between import is_linear, is_scale, is_times_one
from xray.story.recognition.chosen_rows import picks_best
from xray.story.recognition.turning import (
    is_by_place,
    is_cut,
    is_rotary,
    parts_pairs,
    takes_half,
    takes_pairs_apart,
    turns_pairs,
)
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.shortcuts import find_any_norm

Kind = Literal[
    "lay",
    "linear",
    "bend",
    "norm",
    "heads",
    "scale",
    "rotate",
    "choose",
    "earlier",
    "cache",
    "kept",
    "join",
    "repeat",
    "beside",
    "turn",
]
COMPLEX = frozenset({"view_as_complex", "view_as_real"})
PIECES = frozenset({"index", "slice", "narrow", "select"})


def cut_runs(flow: Flow, nodes: Collection[int]) -> list[list[int]]:
    """Steps in runs: cut wherever all data goes through one step; what branches and meets again is one run.

    A step that cuts rows in parts goes with those that put them together again. One that takes none of their numbers
    is left out, where nothing is written: so rotary places have the part that is not turned, be there none (lucidrains'
    library), or no row of it (timm's models without prefix tokens).
    """
    is_written = any(flow.op(node) in WRITES for node in nodes)
    inside = {node for node in nodes if is_written or not flow.steps[node].inputs or 0 not in flow.output(node).shape}
    last_use = {node: node for node in inside}
    for node in inside:
        for maker in (before_times_one(flow, maker, inside) for maker in flow.makers[node]):
            if maker in inside:
                last_use[maker] = max(last_use[maker], node)
    runs: list[list[int]] = []
    group: list[int] = []
    reach = last_reader(flow, inside)
    for node in sorted(inside):
        group.append(node)
        if reach <= node:
            runs.append(group)
            group = []
        reach = max(reach, last_use[node])
    runs += [group] if group else []
    for one, following in pairwise(runs):
        if one and parts_rows(flow, one[-1], following[-1]):
            following.insert(0, one.pop())
        if one and turns_pairs(flow, following[-1]):
            following[:0] = one
            one.clear()
    runs = gather_norms(flow, [run for run in runs if run])
    for before, turn, behind in zip(runs, runs[1:], runs[2:], strict=False):
        if turn and turns_pairs(flow, turn[-1]) and is_move(flow, before) and is_move(flow, behind):
            turn[:] = [before.pop(), *turn, behind.pop(0)]  # pairs are laid out before, and laid back behind
    for before, turn in pairwise(runs):
        if before and turn and takes_pairs_apart(flow, turn[0]) and lays_pairs(flow, before[-1]):
            turn.insert(0, before.pop())
    return [part for run in gather_halves(flow, runs) if run for part in part_own_norm(flow, run)]


def gather_halves(flow: Flow, runs: Sequence[list[int]]) -> list[list[int]]:
    """Runs with what lays halves of rows in pairs in that of the complex numbers, and what lays them back (Gemma)."""
    laid = {node for run in runs for one in run if flow.op(one) in COMPLEX for node in (one, *list_halves(flow, one))}
    found: list[list[int]] = []
    for run in filter(None, runs):
        if found and laid.issuperset([*found[-1], *run]):
            found[-1] = [*found[-1], *run]
        else:
            found.append(run)
    return found


def list_halves(flow: Flow, node: int) -> list[int]:
    """What stacks the halves of rows before they become complex numbers, or parts these and lays them side by side."""
    if flow.op(node) == "view_as_complex":
        stack = flow.makers[node][0]
        halves = flow.makers[stack] if stack is not None and flow.op(stack) == "stack" else ()
        own = sorted({one for one in halves if one is not None and takes_half(flow, one)})
        return [*own, stack] if own and stack is not None else []
    readers = sorted({*flow.leaf_readers(node)})
    joins = {join for one in readers for join in flow.leaf_readers(one)}
    parts_them = all(flow.output(one).shape[-1:] == (1,) for one in readers)
    if len(joins) != 1 or not parts_them or flow.op(join := joins.pop()) not in SIDE_BY_SIDE:
        return []
    return [*readers, join, *(one for one in flow.leaf_readers(join) if flow.op(one) in CARRYING)]


def before_times_one(flow: Flow, maker: int | None, inside: Collection[int]) -> int | None:
    """The step of a way that a step gives the numbers of, be they multiplied by 1 in between (x-transformers' xPos)."""
    while maker is not None and maker not in inside and is_times_one(flow, maker):
        maker = flow.makers[maker][0]
    return maker


def part_own_norm(flow: Flow, run: list[int]) -> list[list[int]]:
    """A run in two where its last step joins what a norm gives and what that reads: others may read either."""
    return [run[:-1], run[-1:]] if len(run) > 1 and joins_own_norm(flow, run[-1]) else [run]


def joins_own_norm(flow: Flow, node: int) -> bool:
    """Whether a step puts what a norm gives beside what that norm reads (A.X K2)."""
    makers = flow.makers[node] if flow.op(node) in SIDE_BY_SIDE else ()
    norms = [norm for maker in makers if maker is not None and (norm := find_any_norm(flow, maker)) is not None]
    joined = {(record.output, maker) for record, maker in flow.given(node)}
    read = ((record.output, maker) for norm in norms for record, maker in flow.given(min(norm.nodes)))
    return any(one in joined for one in read if one[1] is not None)


def last_reader(flow: Flow, nodes: Collection[int]) -> int:
    """The last of some steps that takes a piece of what the first one reads, or multiplies the whole of it; else -1.

    They have not met till then: what lies before them is shared with other ways (GPT-NeoX).
    """
    read = {node: {(one.output, maker) for one, maker in flow.given(node) if maker is not None} for node in nodes}
    alike = [node for node in sorted(nodes) if not read[node].isdisjoint(read[min(nodes)])]
    is_turn = alike and (meets_scaled(flow, alike, nodes) or all(is_cut(flow, node) for node in alike))
    return alike[-1] if is_turn or joins_pieces(flow, alike, nodes) else -1


def joins_pieces(flow: Flow, nodes: Sequence[int], within: Collection[int]) -> bool:
    """Whether some steps take pieces of rows, and what layers make of these is put end to end or side by side first."""
    if len(nodes) < 2 or not all(takes_piece(flow, node) for node in nodes):
        return False
    ahead = [set(flow.ahead(node, within=within.__contains__)) for node in nodes]
    met = min(set.intersection(*ahead), default=None)
    is_worked_on = any(flow.steps[one].is_learned for one in set[int]().union(*ahead) if met is None or one < met)
    return met is not None and flow.op(met) in SIDE_BY_SIDE and is_worked_on


def takes_piece(flow: Flow, node: int) -> bool:
    """Whether a step takes some of the numbers that it reads, be they of each row or of some rows alone."""
    given = flow.steps[node].inputs
    return flow.op(node) in PIECES and bool(given) and 0 < prod(flow.output(node).shape) < prod(given[0].shape)


def meets_scaled(flow: Flow, nodes: Sequence[int], within: Collection[int]) -> bool:
    """Whether the last of some steps multiplies, and what they make meets in more than a choice between them.

    Where one is taken or the other, place by place, rows are not turned (Transfusion).
    """
    if flow.op(nodes[-1]) not in SCALINGS:
        return False
    ahead = [set(flow.ahead(node, within=within.__contains__)) for node in nodes]
    met = min(set.intersection(*ahead), default=None) if len(ahead) > 1 else None
    return met is None or flow.op(met) != "where"


def gather_norms(flow: Flow, runs: list[list[int]]) -> list[list[int]]:
    """Runs with all steps of a norm in one, also where what it reads is made for all three ways at once (GLM-OCR)."""
    found: list[list[int]] = []
    for run in runs:
        norm = find_any_norm(flow, run[-1])
        inside = () if norm is None else norm.nodes
        while found and set(found[-1]) <= set(inside) and find_any_norm(flow, found[-1][-1]) is None:
            run = found.pop() + run  # what ends a norm itself stands by itself: a factor may follow (Muse Glimmer)
        found.append(run)
    return found


def is_move(flow: Flow, run: Sequence[int]) -> bool:
    """Whether steps do no more than to give rows another shape."""
    return bool(run) and all(flow.op(node) in CARRYING for node in run)


def lays_pairs(flow: Flow, node: int) -> bool:
    """Whether a step only lays numbers that lie one behind the other in pairs, with an axis of 1 or without (Flux)."""
    if flow.op(node) not in CARRYING or len(flow.steps[node].inputs) != 1 or not flow.steps[node].outputs:
        return False
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    return after in ((*before[:-1], before[-1] // 2, 2), (*before[:-1], before[-1] // 2, 1, 2))


def parts_rows(flow: Flow, cut: int, end: int) -> bool:
    """Whether a step cuts rows in parts that another one has together again, as wide as they were."""
    given, made = flow.steps[cut].inputs, flow.steps[cut].outputs
    if len(made) < 2 or len(given) != 1 or not made[0].shape or len(flow.readers.get(cut, ())) < 2:
        return False
    before, part, after = given[0].shape, made[0].shape, flow.output(end).shape
    is_some = len(part) == len(before) and prod(part) < prod(before)
    are_pairs = parts_pairs(flow, cut) and after in (before, (*before[:-2], before[-2] * 2))
    return part[-1] < before[-1] == after[-1] or (is_some and after == before) or are_pairs


def name_run(flow: Flow, run: Sequence[int], earlier: Collection[int] = ()) -> Kind | None:
    """What some steps do; None if they only move numbers without giving them another shape, or add the number 0.

    A linear layer that reads nothing of what the `earlier` ones of the way made stands beside that way.
    """
    last = run[-1]
    if picks_best(flow, last) and flow.makers[last][0] in (*run, *earlier):
        return "choose"
    linears = [node for node in run if is_linear(flow, node)]
    if linears:
        return "rotate" if all(lies_beside(flow, node, run, earlier) for node in linears) else "linear"
    if any(flow.op(node) in COMPLEX or flow.output(node).dtype.startswith("complex") for node in run):
        return "rotate"
    if scales_normed(flow, run) or any(is_by_place(flow, node) for node in run):
        return "scale"
    if any((norm := find_any_norm(flow, node)) is not None and norm.end >= run[0] for node in run):
        return "norm"
    if len(run) > 1 and any(flow.op(node) in SCALINGS for node in run):
        return "rotate"
    op = flow.op(last)
    step = flow.steps[last]
    if op == "extend":
        return "cache"
    if pads(flow, last):
        return "bend"
    if op in JOINS | WRITES:
        if any(0 in record.shape for record in step.inputs) or (op in JOINS and len(step.inputs) == 1):
            return None
        return name_join(flow, last) if cut_before(flow, last) is None else "beside"
    if op in REPEATS and step.inputs and step.outputs:
        return "repeat" if prod(step.outputs[0].shape) > prod(step.inputs[0].shape) else "heads"
    if op in CARRYING:
        return "heads"
    if op in DROPOUTS or (op == "pad" and step.inputs and step.outputs[0].shape == step.inputs[0].shape):
        return None
    if is_scale(flow, last):
        return "scale"
    if op in SUMS and (number(step) == 0 or any(is_one_row(record) for record in step.inputs)):
        return None
    return "rotate" if op in SCALINGS | SUMS else "bend"


def pads(flow: Flow, node: int) -> bool:
    """Whether a step puts rows around others, be they zeros that it is given (Gemma 3n's ear); none is as it was."""
    given, made = flow.steps[node].inputs, flow.output(node).shape
    if flow.op(node) in PADDINGS:
        return bool(given) and made != given[0].shape
    if flow.op(node) not in SIDE_BY_SIDE:
        return False
    begun = [flow.carried_from(maker, CARRYING | REPEATS) for maker in flow.makers[node]]
    are_zeros = [one is not None and flow.op(one) in ZEROS for one in begun]
    rows = [one.shape for one, is_zero in zip(given, are_zeros, strict=True) if not is_zero]
    return any(are_zeros) and len(rows) == 1 and rows[0] != made and rows[0][-1:] == made[-1:]


def is_one_row(record: TensorRecord) -> bool:
    """Whether a tensor is one row of numbers for all places, as the bias of a linear layer is."""
    return len(record.shape) < 2 or (record.role == "parameter" and prod(record.shape) == max(record.shape))


def lies_beside(flow: Flow, node: int, run: Sequence[int], earlier: Collection[int]) -> bool:
    """Whether a step of a way reads nothing that earlier ones made, and the run that it is in reads that."""
    way = {*run, *earlier}
    behind, whole = (set(flow.behind(*makers, within=way.__contains__)) for makers in (flow.makers[node], [run[-1]]))
    return behind.isdisjoint(earlier) and not whole.isdisjoint(earlier)


def scales_normed(flow: Flow, run: Sequence[int]) -> bool:
    """Whether a step multiplies what a norm gives by one number (Muse Glimmer's queries).

    By numbers that are worked out of learned ones too, where the norm has weights of its own (TimesFM 2.5's queries).
    """
    last = run[-1]
    step = flow.steps[last]
    if step.op not in SCALINGS:
        return False
    norms = {one: norm for one in flow.makers[last] if one is not None and (norm := find_any_norm(flow, one))}
    if len(run) == 1 and norms and all(len(one.shape) == 0 for one in step.inputs[1:]):
        return True
    made = [one for one in flow.makers[last] if one is not None and one not in norms]
    return len(made) == 1 == len(norms) and any(
        record.role == "parameter" for node in next(iter(norms.values())).nodes for record in flow.steps[node].inputs
    )


def name_join(flow: Flow, node: int) -> Kind:
    """What rows are put beside: those from before the pass, others that it made itself, or their own other part.

    Rows that came in are kept where the new ones stand behind them, and both are handed out again; what is written
    among others that the pass made is kept nowhere.
    """
    given, made = flow.steps[node].inputs, flow.output(node)
    if given and made.shape[-1:] > given[0].shape[-1:]:
        return "beside"
    is_all_made = all(maker is not None for maker in flow.makers[node]) or joins_given_rows(flow, node)
    first = next(iter(flow.makers[node]), None)
    is_kept = first is None and flow.steps[node].id in flow.one_pass.results
    if flow.op(node) in JOINS - {"cache"} and (is_all_made or not is_kept):
        return "join"
    if flow.op(node) in WRITES and flow.carried_from(first) is not None:
        return "join"
    return "kept" if reads_back(flow, node) else "cache"


def reads_back(flow: Flow, node: int) -> bool:
    """Whether of rows that are written into others those alone are read that were written (Llama 3 as published)."""
    readers, whole = flow.leaf_readers(node), flow.output(node).shape
    if flow.op(node) not in WRITES or not readers or any(flow.op(one) != "index" for one in readers):
        return False
    ways = {str(flow.steps[one].settings.get("index", "")) for one in (node, *readers)}
    spans = {tuple(read_span(way, whole, axis) for axis in range(way.count(",") + 1)) for way in ways}
    return len(spans) == 1 and None not in next(iter(spans))


def joins_given_rows(flow: Flow, node: int) -> bool:
    """Whether rows that no step made are put beside a stream's, before layers make keys of both (Transformer-XL).

    What is kept of rows that a layer made, and that others are made of later, is a cache (DeepSeek's).
    """
    made = [maker for maker in flow.makers[node] if maker is not None]
    if flow.op(node) not in SIDE_BY_SIDE or len(made) != 1 or len(flow.makers[node]) != 2:
        return False
    own: int | None = made[0]
    while own is not None and (flow.op(own) in CARRYING or find_any_norm(flow, own) is not None or is_cut(flow, own)):
        norm = find_any_norm(flow, own)
        own = flow.makers[own if norm is None else min(norm.nodes)][0]
    onward = {node, *flow.ahead(*flow.readers.get(node, ()), within=lambda one: not works_on(flow, one))}
    is_worked_on = any(is_linear(flow, reader) for one in onward for reader in flow.readers.get(one, ()))
    return is_worked_on and (own is None or not is_linear(flow, own))


def label_given_rows(flow: Flow, join: int) -> str:
    """What a step is called that puts rows that no step made beside a stream's: on which side of these they stand."""
    return f"GIVEN ROWS PUT {'IN FRONT' if flow.makers[join][0] is None else 'BEHIND'}"


def works_on(flow: Flow, node: int) -> bool:
    """Whether a step makes other rows of those that it reads, by weights or in a product."""
    return is_linear(flow, node) or is_product(flow, node)


def cut_before(flow: Flow, place: int) -> int | None:
    """The cut whose part of each row a step fills, as with the turned numbers beside the others; no cache does that."""
    into = flow.makers[place][0] if flow.op(place) in WRITES and flow.makers[place] else None
    return into if into is not None and is_cut(flow, into) else None


def count_turned_rows(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """How many of how many rows are turned, where they are laid behind or before rows that are not (DINOv3).

    Or put in the place of what they were (CogView 4). None where all are.
    """
    for node in sorted(nodes, reverse=True):
        if (put := count_put_rows(flow, node, nodes)) is not None:
            return put
        given = [(record.shape, maker) for record, maker in flow.given(node) if 0 not in record.shape]
        made = flow.output(node).shape
        grown = [axis for axis, size in enumerate(made) if any(shape[axis : axis + 1] != (size,) for shape, _ in given)]
        if flow.op(node) not in SIDE_BY_SIDE or len(given) < 2 or len(grown) != 1 or grown[0] == len(made) - 1:
            continue
        own = [set(flow.behind(maker, within=nodes.__contains__)) for _, maker in given]
        turned = [shape[grown[0]] for (shape, _), within in zip(given, own, strict=True) if is_rotary(flow, within)]
        if 0 < len(turned) < len(given):
            return sum(turned), made[grown[0]]
    return None


def count_put_rows(flow: Flow, node: int, nodes: Collection[int]) -> tuple[int, int] | None:
    """How many turned rows of how many a step puts where they were before; None where it does not."""
    given, made = list(flow.given(node)), flow.output(node).shape
    if flow.op(node) not in PLACING or len(given) < 2 or len(given[-1][0].shape) != len(made):
        return None
    rows, maker = given[-1]
    less = [axis for axis, size in enumerate(made) if rows.shape[axis] != size]
    is_of_rows = len(less) == 1 and less[0] < len(made) - 1
    is_turned = is_of_rows and is_rotary(flow, {*flow.behind(maker, within=nodes.__contains__)})
    return (rows.shape[less[0]], made[less[0]]) if is_turned else None
