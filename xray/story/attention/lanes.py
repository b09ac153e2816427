"""The way of queries, keys or values as the parts that a reader knows: projection, heads, norm, rotation, cache."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Literal, get_args

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    DROPOUTS,
    JOINS,
    LOOKUPS,
    REPEATS,
    SCALINGS,
    SHAPING,
    SUMS,
    TURNS,
    WRITES,
)
from xray.ir.records import TensorRecord
from xray.ir.turns import swaps_last_two
from xray.story.body.stages import Branching, find_any_norm, opening_norms
from xray.story.branches.operands import Side, is_cut, turns_pairs
from xray.story.branches.rows import SWAPS
from xray.story.passages.gated_norms import list_own_gate
from xray.story.passages.modulation import list_modulation
from xray.story.recognition.between import Region, is_linear, is_scale
from xray.story.recognition.chosen_rows import picks_best

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
    "join",
    "repeat",
    "beside",
    "turn",
]
MOST_BEHIND_PLACES = 24
RANK: tuple[Kind, ...] = get_args(Kind)
"""Which part of two comes first where the ways of queries, keys and values leave it open."""


@dataclass(frozen=True)
class Part:
    """Neighbouring steps of a way that do one thing together, and what the last of them gives on."""

    kind: Kind
    nodes: tuple[int, ...]
    record: TensorRecord
    number: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from the others of its way: its kind, and the how manieth of that kind it is."""
        return (self.kind, self.number)


def cut_way(flow: Flow, nodes: Collection[int], end: TensorRecord | None) -> list[Part]:
    """The parts of a way, in order. All data goes through the last step of each; idle moves go along."""
    found: list[Part] = []
    earlier: set[int] = set()
    for run in cut_runs(flow, nodes):
        kind = name_run(flow, run, earlier)
        earlier |= set(run)
        cut = cut_before(flow, run[-1])
        record = flow.output(run[-1]) if cut is None else flow.steps[cut].inputs[0]
        first = flow.steps[run[0]].inputs
        before = found[-1].record if found else first[0] if first else None
        is_same = kind == "heads" and before is not None and before.shape == record.shape
        if is_same and not found:
            continue
        if found and kind == "heads" and lays_back(found[-1], record):
            found[-1] = Part("rotate", (*found[-1].nodes, *run), record)
        elif found and (kind is None or is_same or (kind == found[-1].kind and kind in ("heads", "rotate", "norm"))):
            found[-1] = Part(found[-1].kind, (*found[-1].nodes, *run), record)
        elif kind is not None:
            found.append(Part(kind, tuple(run), record))
    found = settle_repeats(flow, found)
    if found and end is not None:
        found[-1] = Part(found[-1].kind, found[-1].nodes, end)
    counts: dict[str, int] = {}
    numbered = []
    for part in found:
        numbered.append(Part(part.kind, part.nodes, part.record, counts.get(part.kind, 0)))
        counts[part.kind] = counts.get(part.kind, 0) + 1
    return numbered


def lays_back(before: Part, record: TensorRecord) -> bool:
    """Whether a move lays pairs that were turned into one row again (Llama 4)."""
    paired = before.record.shape
    is_row = prod(paired) == prod(record.shape) and paired[:-2] == record.shape[:-1]
    return before.kind == "rotate" and is_row and 2 in paired[-2:]


def settle_repeats(flow: Flow, parts: list[Part]) -> list[Part]:
    """The moves around a repeat go with it: an axis put in before, and taken away behind."""
    found: list[Part] = []
    for part in parts:
        if part.kind == "repeat" and found and found[-1].kind == "heads":
            found[-1], part = hand_on_axes(flow, found[-1], part)
        before = found[-1] if found else None
        if (before is not None and part.kind == "heads" and before.kind == "repeat") or (
            before is not None
            and part.kind == "repeat"
            and before.kind == "heads"
            and len(found) > 1
            and prod(before.record.shape) == prod(found[-2].record.shape)
            and any(one.kind == "heads" for one in found[:-1])
        ):
            found[-1] = Part("repeat", (*before.nodes, *part.nodes), part.record)
        else:
            found.append(part)
    return found


def hand_on_axes(flow: Flow, heads: Part, repeat: Part) -> tuple[Part, Part]:
    """The cut and the repeat behind it, the axis that is put in to repeat along it no longer of the cut."""
    nodes, moved = heads.nodes, repeat.nodes
    while len(nodes) > 1 and puts_in_axis(flow, nodes[-1]):
        nodes, moved = nodes[:-1], (nodes[-1], *moved)
    if nodes == heads.nodes:
        return heads, repeat
    record = flow.steps[moved[0]].inputs[0]
    return replace(heads, nodes=nodes, record=record), replace(repeat, nodes=moved)


def puts_in_axis(flow: Flow, node: int) -> bool:
    """Whether a step does no more than to put in an axis of length 1."""
    before, after = next((one.shape for one in flow.steps[node].inputs), ()), flow.output(node).shape
    return any(after[:place] + after[place + 1 :] == before for place, size in enumerate(after) if size == 1)


def cut_runs(flow: Flow, nodes: Collection[int]) -> list[list[int]]:
    """Steps in runs: cut wherever all data goes through one step; what branches and meets again is one run.

    A step that cuts rows in parts goes with those that put them together again.
    """
    inside = set(nodes)
    last_use = {node: node for node in inside}
    for node in inside:
        for maker in flow.makers[node]:
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
    return [run for run in runs if run]


def last_reader(flow: Flow, nodes: Collection[int]) -> int:
    """The last of some steps that takes a piece of what the first one takes a piece of: they have not met till then.

    So it is where what lies before the pieces is shared with other ways (GPT-NeoX); -1 where the first takes none.
    """
    first = min(nodes, default=None)
    if first is None or not is_cut(flow, first):
        return -1
    return max(node for node in nodes if is_cut(flow, node) and flow.makers[node][0] == flow.makers[first][0])


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


def parts_rows(flow: Flow, cut: int, end: int) -> bool:
    """Whether a step cuts rows in parts that another one has together again, as wide as they were."""
    given, made = flow.steps[cut].inputs, flow.steps[cut].outputs
    if len(made) < 2 or len(given) != 1 or not made[0].shape or len(flow.readers.get(cut, ())) < 2:
        return False
    before, part, after = given[0].shape, made[0].shape, flow.output(end).shape
    is_some = len(part) == len(before) and prod(part) < prod(before)
    return part[-1] < before[-1] == after[-1] or (is_some and after == before)


def name_run(flow: Flow, run: Sequence[int], earlier: Collection[int] = ()) -> Kind | None:
    """What some steps do; None if they only move numbers without giving them another shape.

    A linear layer that reads nothing of what the `earlier` ones of the way made stands beside that way.
    """
    last = run[-1]
    if picks_best(flow, last) and flow.makers[last][0] in (*run, *earlier):
        return "choose"
    linears = [node for node in run if is_linear(flow, node)]
    if linears:
        return "rotate" if all(lies_beside(flow, node, run, earlier) for node in linears) else "linear"
    if scales_normed(flow, run) or any(is_by_place(flow, node) for node in run):
        return "scale"
    if any((norm := find_any_norm(flow, node)) is not None and norm.end >= run[0] for node in run):
        return "norm"
    if len(run) > 1 and any(flow.op(node) in SCALINGS for node in run):
        return "rotate"
    if any(flow.op(node) in ("view_as_complex", "view_as_real") for node in run):
        return "rotate"
    op = flow.op(last)
    step = flow.steps[last]
    if op == "extend":
        return "cache"
    if op in JOINS | WRITES:
        if any(0 in record.shape for record in step.inputs):
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
    if op in SUMS and any(is_one_row(record) for record in step.inputs):
        return None
    return "rotate" if op in SCALINGS | SUMS else "bend"


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


def is_by_place(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows by a number for each place that is worked out of the place alone (Llama 4)."""
    shape = flow.output(node).shape
    others = [(record, maker) for record, maker in flow.given(node) if record.shape != shape]
    if flow.op(node) not in SCALINGS or len(others) != 1 or others[0][1] is None:
        return False
    record, maker = others[0]
    behind = list(flow.behind(maker, most=MOST_BEHIND_PLACES))
    outer = [one for here in behind for one, before in flow.given(here) if before is None and one.role != "parameter"]
    is_data = any(flow.op(here) in LOOKUPS or flow.steps[here].params or is_linear(flow, here) for here in behind)
    is_own = len(behind) < MOST_BEHIND_PLACES and not is_data and not any(one.is_float for one in outer)
    is_counted = any(flow.op(here) in ("arange", "cumsum") for here in behind) or bool(outer)
    return is_own and is_counted and record.shape[-1:] == (1,) and prod(record.shape) > 1 and record.is_float


def name_join(flow: Flow, node: int) -> Kind:
    """What rows are put beside: those from before the pass, others that it made itself, or their own other part."""
    given, made = flow.steps[node].inputs, flow.output(node)
    if given and made.shape[-1:] > given[0].shape[-1:]:
        return "beside"
    is_all_made = all(maker is not None for maker in flow.makers[node])
    return "join" if flow.op(node) in JOINS - {"cache"} and is_all_made else "cache"


def cut_before(flow: Flow, place: int) -> int | None:
    """The cut whose part of each row a step fills, as with the turned numbers beside the others; no cache does that."""
    into = flow.makers[place][0] if flow.op(place) in WRITES and flow.makers[place] else None
    return into if into is not None and is_cut(flow, into) else None


def lay_out(flow: Flow, parts: Sequence[Part]) -> list[Part]:
    """The parts of a way; moves before its linear layer cut no heads, they lay out rows, or take some of them."""
    first = next((place for place, part in enumerate(parts) if part.kind == "linear"), 0)
    moved = [part for part in parts[:first] if part.kind == "heads"]
    rest = (replace(part, number=part.number - len(moved) * (part.kind == "heads")) for part in parts[first:])
    before = [replace(part, kind="lay", number=moved.index(part)) if part in moved else part for part in parts[:first]]
    return [*before, *rest]


def take_turn(flow: Flow, parts: list[Part], nodes: Collection[int]) -> tuple[list[Part], Part | None]:
    """The last turn of the keys, rows to columns, as a part of its own; no turn that only brings heads forward.

    That one may stand among the `nodes` of the keys' whole way that are no part of their own lane.
    """
    if not parts:
        return parts, None
    last = parts[-1]
    turn = last.nodes[-1]
    if flow.op(turn) not in TURNS or not swaps_last_two(flow.steps[turn]):
        return parts, None
    turns = [node for node in nodes if flow.op(node) in TURNS]
    if len(turns) == 1 and not flow.steps[turn].settings.get("derived"):
        return parts, None
    own = Part("turn", (turn,), last.record)
    rest = last.nodes[:-1]
    if not rest:
        return parts[:-1], own
    return [*parts[:-1], Part(last.kind, rest, flow.steps[turn].inputs[0], last.number)], own


def order_rows(ways: Sequence[Sequence[Part]]) -> list[tuple[str, int]]:
    """The keys of all ways in one order in which each way keeps its own; where they disagree, the first one's."""
    order: list[tuple[str, int]] = []
    waiting = [[part.key for part in way] for way in ways]
    while any(waiting):
        heads = [way[0] for way in waiting if way]
        free = [head for head in heads if not any(head in way[1:] for way in waiting)] or heads[:1]
        chosen = min(free, key=lambda key: RANK.index(key[0]) if key[0] in RANK else 99)
        order.append(chosen)
        waiting = [[key for key in way if key != chosen] for way in waiting]
    return order


def list_opening(flow: Flow, found: Branching) -> frozenset[int]:
    """The steps of a branch up to the end of the norm that it begins with: they are drawn apart."""
    norms = opening_norms(flow, found.region, found.region.start)
    inner = found.region.inner
    ends = [
        node
        for norm in norms
        for node in (norm.end, *list_modulation(flow, norm), *list_own_gate(flow, norm, inner)[-1:])
    ]
    return frozenset(node for node in inner if ends and node <= max(ends))


def list_laid_out(flow: Flow, sides: Sequence[Side]) -> frozenset[int]:
    """The steps before the linear layers that only swap, pick and lay out rows: the panel's name says what they do."""
    return frozenset(
        node
        for side in sides
        for node in side.nodes
        if side.projections and node < side.projections[0] and flow.op(node) in SWAPS | SHAPING
    )


def ends_norm(flow: Flow, node: int, region: Region) -> bool:
    """Whether a step multiplies by the weights of a norm that made the stream: that is drawn before (MiniMax)."""
    norm = find_any_norm(flow, node)
    return norm is not None and region.start in norm.nodes


def list_weights(flow: Flow, nodes: frozenset[int]) -> frozenset[int]:
    """The steps that only move parameters: weights cut in three, say."""
    found: set[int] = set()
    for node in sorted(nodes):
        given = list(flow.given(node))
        if given and all(record.role == "parameter" or maker in found for record, maker in given):
            found.add(node)
    return frozenset(found)
