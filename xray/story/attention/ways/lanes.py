"""The way of queries, keys or values as the parts that a reader knows: projection, heads, norm, rotation, cache."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import get_args

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SHAPING, TURNS
from xray.ir.flow.projections import is_product
from xray.ir.records import TensorRecord
from xray.ir.turns import swaps_last_two
from xray.story.attention.ways.runs import Kind, cut_before, cut_runs, name_run
from xray.story.body.stages import Branching, opening_norms
from xray.story.branches.operands.sides import Side
from xray.story.branches.rows import SWAPS
from xray.story.branches.scored.caps import read_factor
from xray.story.passages.learned_steps import list_bias
from xray.story.passages.modulation import list_modulation
from xray.story.passages.norm_factors import list_own_gate
from xray.story.recognition.between import Region, is_linear
from xray.story.streams.shortcuts import ends_turns, find_any_norm

RANK: tuple[Kind, ...] = get_args(Kind)
"""Which part of two comes first where the ways of queries, keys and values leave it open."""
OF_HEADS = len(("batch", "heads", "places", "d_k"))


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
        record = (
            (find_only_part(flow, run[-1], nodes) or flow.output(run[-1])) if cut is None else flow.steps[cut].inputs[0]
        )
        if kind == "rotate" and (scaled := list_scaled_parts(flow, run)):
            found.append(Part("scale", (run[0], *scaled), flow.steps[run[0]].inputs[0]))
            run = [node for node in run[1:] if node not in scaled]
        before = found[-1].record if found else next((record for record, _ in flow.given(run[0])), None)
        is_same = kind == "heads" and before is not None and before.shape == record.shape
        if is_same and not found and not turns_square(flow, run):
            continue
        if (linear := find_biased(flow, found, run)) is not None:
            layer = [node for part in found[linear:] for node in part.nodes]
            found[linear:] = [Part("linear", (*layer, *run), record)]
        elif found and kind == "heads" and lays_back(found[-1], record):
            found[-1] = Part("rotate", (*found[-1].nodes, *run), record)
        elif found and (kind is None or is_same or (kind == found[-1].kind and joins_before(flow, kind, run))):
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


def turns_square(flow: Flow, run: Sequence[int]) -> bool:
    """Whether steps that leave a shape as it is lay it on its side: as many keys as each has numbers (Hiera's)."""
    turns = [node for node in run if flow.op(node) in TURNS]
    return len(turns) == 1 and swaps_last_two(flow.steps[turns[0]])


def find_only_part(flow: Flow, cut: int, nodes: Collection[int]) -> TensorRecord | None:
    """The one part that some steps read of those into which a step cuts rows; None where they read several, or none."""
    readers = [one for one in flow.readers.get(cut, ()) if one in nodes] if len(flow.steps[cut].outputs) > 1 else []
    parts = {record.output: record for one in readers for record, maker in flow.given(one) if maker == cut}
    return next(iter(parts.values())) if len(parts) == 1 and None not in parts else None


def find_biased(flow: Flow, parts: Sequence[Part], run: Sequence[int]) -> int | None:
    """Which of the last two parts is the linear layer whose bias some steps add; None if none is."""
    for place in range(len(parts) - 1, max(len(parts) - 3, -1), -1):
        linears = [node for node in parts[place].nodes if is_linear(flow, node)]
        if linears and tuple(run) == list_bias(flow, linears[-1]):
            return place
    return None


def joins_before(flow: Flow, kind: Kind, run: Sequence[int]) -> bool:
    """Whether steps go with those before them that are of the same kind, and take no part of the rows of each head."""
    return kind in ("rotate", "norm") or (
        kind == "heads" and not any(takes_rows_of_heads(flow, (node,)) for node in run)
    )


def takes_rows_of_heads(flow: Flow, nodes: Sequence[int]) -> bool:
    """Whether steps take some of the rows of each head, and do nothing else."""
    taken, whole = count_rows_of_heads(flow, nodes)
    return 0 < taken < whole


def count_rows_of_heads(flow: Flow, nodes: Sequence[int]) -> tuple[int, int]:
    """How many rows of each head steps take, of how many, be heads the axis before rows or the one behind (Llama 3).

    They may be those of some sequences alone, of a cache that has room for more; 0 and 0 where they do anything else.
    """
    before, after = flow.steps[nodes[0]].inputs[:1], flow.output(nodes[-1]).shape
    shape = before[0].shape if before else ()
    if len(shape) != OF_HEADS or len(after) != OF_HEADS:
        return 0, 0
    rows = 1 if before[0].axes[2] in ("heads", "kv_heads") else 2
    is_alike = (shape[1:rows], shape[rows + 1 :]) == (after[1:rows], after[rows + 1 :])
    return (after[rows], shape[rows]) if is_alike and after[0] <= shape[0] else (0, 0)


def list_scaled_parts(flow: Flow, run: Sequence[int]) -> list[int]:
    """The steps that multiply all parts in which rows are cut, each by itself, by one number before some are turned.

    That is the number of the whole row (LongCat's queries).
    """
    is_cut = len(flow.steps[run[0]].outputs) > 1
    readers = [node for node in run[1:] if run[0] in flow.makers[node]] if is_cut else []
    factors = {read_factor(flow, node) for node in readers}
    is_whole = sum(prod(flow.output(node).shape) for node in readers) == prod(flow.steps[run[0]].inputs[0].shape)
    return readers if is_whole and len(factors) == 1 and factors.isdisjoint((None, 1)) else []


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


def lay_out(parts: Sequence[Part]) -> list[Part]:
    """The parts of a way; moves before its linear layer cut no heads, they lay out rows, or take some of them."""
    first = next((place for place, part in enumerate(parts) if part.kind == "linear"), 0)
    moved = [part for part in parts[:first] if part.kind == "heads"]
    rest = (replace(part, number=part.number - len(moved) * (part.kind == "heads")) for part in parts[first:])
    before = [replace(part, kind="lay", number=moved.index(part)) if part in moved else part for part in parts[:first]]
    return [*before, *rest]


def take_turn(flow: Flow, parts: list[Part]) -> tuple[list[Part], Part | None]:
    """The last turn of the keys, rows to columns for a product, as a part of its own."""
    if not parts or parts[-1].record.axes[-1:] == ("d_k",):
        return parts, None
    last = parts[-1]
    turn = last.nodes[-1]
    products = [one for one in flow.leaf_readers(turn) if is_product(flow, one) and flow.op(one) != "einsum"]
    is_second = any(flow.makers[one][-1] == turn for one in products)
    if flow.op(turn) not in TURNS or not swaps_last_two(flow.steps[turn]) or not is_second:
        return parts, None
    own = Part("turn", (turn,), last.record)
    rest = last.nodes[:-1]
    if not rest:
        return parts[:-1], own
    return [*parts[:-1], Part(last.kind, rest, flow.steps[turn].inputs[0], last.number)], own


def order_rows(ways: Sequence[Sequence[Part]]) -> list[list[int]]:
    """For each way the rows of its parts from 0 up: parts of one key stand in one row, unless ways disagree in order.

    Then that of the first way stands alone, and those of others in rows of their own, so that each way leads upwards.
    """
    rows: list[list[int]] = [[] for _ in ways]
    waiting = [[part.key for part in way] for way in ways]
    count = 0
    while any(waiting):
        heads = [way[0] for way in waiting if way]
        free = [head for head in heads if not any(head in way[1:] for way in waiting)] or heads[:1]
        chosen = min(free, key=lambda key: RANK.index(key[0]) if key[0] in RANK else 99)
        for own, way in zip(rows, waiting, strict=True):
            if way[:1] == [chosen]:
                own.append(count)
                del way[0]
        count += 1
    return rows


def even_cuts(flow: Flow, ways: Sequence[Sequence[Part]]) -> list[Sequence[Part]]:
    """The ways, of which those that end with a cut of the rows of heads have one number for it: it is in one row."""
    cuts = [way[-1] for way in ways if way and way[-1].kind == "heads" and takes_rows_of_heads(flow, way[-1].nodes)]
    last = max((cut.number for cut in cuts), default=0)
    return [[*way[:-1], replace(way[-1], number=last)] if way and way[-1] in cuts else way for way in ways]


def list_opening(flow: Flow, found: Branching) -> frozenset[int]:
    """The steps of a branch up to the end of the norm that it begins with: they are drawn apart.

    What stands beside its attention may begin with another norm, behind that in order (Branchformer).
    """
    norms = opening_norms(flow, found.region, found.region.start)
    inner = found.region.inner
    led = () if found.site is None else {*flow.behind(found.site.weighted_sum, within=inner.__contains__)}
    norms = [norm for norm in norms if not led or norm.end in led]
    ends = [
        node
        for norm in norms
        for node in (norm.end, *list_modulation(flow, norm), *list_own_gate(flow, norm, inner)[-1:])
    ]
    norming = {node for norm in norms for node in norm.nodes}
    return frozenset(flow.behind(*ends, within=inner.__contains__)) | (norming & inner) if ends else frozenset()


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
    return (norm is not None and region.start in norm.nodes) or ends_turns(flow, node, region.start)


def list_weights(flow: Flow, nodes: frozenset[int]) -> frozenset[int]:
    """The steps that only move parameters: weights cut in three, say."""
    found: set[int] = set()
    for node in sorted(nodes):
        given = list(flow.given(node))
        if given and all(record.role == "parameter" or maker in found for record, maker in given):
            found.add(node)
    return frozenset(found)
