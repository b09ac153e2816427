"""Queries, keys and values: how they are made, whether they are turned, normalised, or go through a waist."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import KIND_ALIKE, Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    FINDINGS,
    JOINS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
)
from xray.ir.flow.projections import data_input
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import Latent, NormKind
from xray.story.recognition.between import (
    Region,
    is_linear,
    is_scale,
    list_reading_data,
    projections_in,
    read_sizes,
    weights_of,
    width_in,
    width_out,
)
from xray.story.recognition.earlier_keys import find_earlier
from xray.story.recognition.norms import Norm, find_norm, name_norm
from xray.story.recognition.statistics import is_of_weights
from xray.story.recognition.turning import is_by_place

MOST_BEHIND = 60
TURNED = (
    CARRYING
    | SUMS
    | SCALINGS
    | frozenset(["view_as_complex", "view_as_real", "cat", "stack", "neg", "sub", "roll", "pad"])
)
"""What may be done to an operand between its linear layer and its norm."""


@dataclass(frozen=True)
class Side:
    """One operand of an attention followed back: the steps it is worked out by, and the linear layers among them.

    Where rows of another kind stand beside those of the places (DeepSeek-V4 has a row for several places), `others`
    says how many, and these are not followed: 0 where there are too few places for one. `earlier` is the step of an
    earlier layer that made it, where one did.
    """

    end: TensorRecord
    nodes: frozenset[int]
    projections: tuple[int, ...]
    is_own: bool
    others: int | None = None
    earlier: int | None = None

    @property
    def last(self) -> int | None:
        """The linear layer that comes last."""
        return self.projections[-1] if self.projections else None


def read_sides(flow: Flow, site: Site, region: Region) -> tuple[Side, Side, Side]:
    """Queries, keys and values, each followed back to where the branch begins, or to another tower's memory."""
    step, summed = flow.steps[site.scores], flow.steps[site.weighted_sum]
    numbers = (len(step.inputs) - 2, len(step.inputs) - 1)
    key_number = numbers[1] if step.inputs[numbers[1]] is site.key.end else numbers[0]
    query_number = numbers[0] + numbers[1] - key_number
    value_numbers = range(len(summed.inputs) - 2, len(summed.inputs))
    value_number = next((n for n in value_numbers if summed.inputs[n] is site.value.end), value_numbers[-1])
    query, key, value = (
        follow_side(flow, site.scores, query_number, region),
        follow_side(flow, site.scores, key_number, region),
        follow_side(flow, site.weighted_sum, value_number, region),
    )
    if key.is_own and value.is_own and not query.is_own:
        query = keep_within(query, region.beside)  # what made them stands before the branch, for all layers (GC ViT)
    return query, key, value


def keep_within(side: Side, nodes: frozenset[int]) -> Side:
    """An operand as far back as some steps go."""
    return replace(
        side, nodes=side.nodes & nodes, projections=tuple(node for node in side.projections if node in nodes)
    )


def follow_side(flow: Flow, reader: int, number: int, region: Region) -> Side:
    """An operand followed back through the branch; keys and values of another tower as far as their linear layer."""
    end, start = flow.steps[reader].inputs[number], flow.makers[reader][number]
    if start is None:
        return Side(end, frozenset(), (), is_own=False)
    is_own = start in region.inner
    earlier = None if is_own else find_earlier(flow, reader, number, region.start)
    if earlier is not None:
        own = keep_made(flow, flow.behind(start, most=MOST_BEHIND, ends=lambda one: is_linear(flow, one)))
        return Side(end, frozenset(own), tuple(projections_in(flow, own)), is_own, earlier=earlier)
    allowed = region.inner if is_own else None
    data = list_reading_data(flow)  # the places by which keys are turned may be made by many steps, long before
    nodes, prepared = set[int](), set[int]()
    others = None
    todo = [start]
    while todo:
        here = todo.pop()
        if here in nodes or (allowed is not None and here not in allowed):
            continue
        if allowed is None and here not in data and 0 not in flow.output(here).shape and not weights_of(flow, [here]):
            continue
        nodes.add(here)
        if allowed is None and (is_linear(flow, here) or len(nodes) > 40):
            prepared.update(find_prepared(flow, here, region))
            continue
        places = None if allowed is None else find_places(flow, here, region)
        if places is not None:
            others = (others or 0) + flow.output(here).shape[-2] - flow.output(places).shape[-2]
        todo += [maker for maker in flow.makers[here] if maker is not None] if places is None else [places]
    if allowed is None and any(is_linear(flow, one) for one in nodes):
        nodes = keep_made(flow, nodes, nodes - data)
    nodes |= prepared
    return Side(end, frozenset(nodes), tuple(projections_in(flow, nodes)), is_own, others)


def keep_made(flow: Flow, nodes: Iterable[int], held: Collection[int] = ()) -> set[int]:
    """Those of some steps that are linear layers, or `held`, or work on what one of these made: others make places."""
    own: set[int] = set()
    for here in sorted(nodes):
        is_begun = is_linear(flow, here) or here in held
        own |= {here} if is_begun or not own.isdisjoint(flow.makers[here]) else set()
    return own


def find_prepared(flow: Flow, linear: int, region: Region) -> tuple[int, ...]:
    """What a branch itself does to another tower's rows for a linear layer to read: a norm (Perceiver), or a sum.

    So places are added (DETR, SAM). With the moves that lay the rows out before the layer reads them (Mask2Former);
    empty where nothing is done, or where a norm is read by later branches too: it is none of this one's (X-CLIP).
    """
    here, moved = follow_moved(flow, linear, region)
    norm = find_norm(flow, here)
    if norm is not None and region.beside.issuperset(norm.nodes):
        return () if is_read_behind(flow, norm.end, region.end) else (*norm.nodes, *moved)
    if here is None or here not in region.beside or flow.op(here) not in SUMS or len(flow.steps[here].inputs) != 2:
        return ()
    alike = all(record.shape[-1:] == flow.output(here).shape[-1:] for record in flow.steps[here].inputs)
    return (here, *moved) if alike and flow.is_leaf(here) else ()


def find_normed_before(flow: Flow, linear: int, region: Region) -> Norm | None:
    """The norm of another tower's rows that a linear layer of a branch reads, and branches behind it too."""
    norm = find_norm(flow, follow_moved(flow, linear, region)[0])
    is_shared = norm is not None and region.beside.issuperset(norm.nodes) and is_read_behind(flow, norm.end, region.end)
    return norm if is_shared else None


def follow_moved(flow: Flow, linear: int, region: Region) -> tuple[int | None, list[int]]:
    """What a linear layer reads before it is laid out beside a branch, and the steps that lay it out."""
    number = data_input(flow, linear)
    here = None if number is None else flow.makers[linear][number]
    moved: list[int] = []
    while here is not None and here in region.beside and flow.op(here) in CARRYING and flow.makers[here]:
        moved.append(here)
        here = flow.makers[here][0]
    return here, moved


def is_read_behind(flow: Flow, node: int, end: int) -> bool:
    """Whether steps behind another one read what a step makes, be it moved."""
    moved = flow.ahead(node, within=lambda one: one == node or flow.op(one) in CARRYING)
    return any(reader > end for one in moved for reader in flow.leaf_readers(one))


def find_places(flow: Flow, join: int, region: Region) -> int | None:
    """Of rows that a step puts beside each other, those with one for each place of the stream; None if it is no such.

    All of them have to be worked out of the stream, or be no row yet, of its type, and no parts of one and the same.
    """
    step, places = flow.steps[join], flow.output(region.end).shape[-2:-1]
    makers = flow.makers[join]
    if step.op not in SIDE_BY_SIDE or len(makers) < 2 or len(step.outputs[0].shape) < 3:
        return None
    if not all(maker in region.inner or is_no_row_yet(flow, maker) for maker in makers):
        return None
    whole = [maker for record, maker in flow.given(join) if record.shape[-2:-1] == places]
    others = [maker for maker in makers if maker not in whole and not is_empty_cut(flow, maker, places)]
    roots = {flow.carried_from(maker, CARRYING | {"index"}) for maker in makers}
    return whole[0] if len(whole) == 1 and others and len(roots) > 1 else None


def is_no_row_yet(flow: Flow, maker: int | None) -> bool:
    """Whether a step makes rows of the type of others, and none of them: some stand there where there are more places.

    So it is where a row stands for so many places that there are fewer.
    """
    begin = flow.carried_from(maker)
    return begin is not None and flow.op(begin) in KIND_ALIKE and flow.output(begin).shape[-2:-1] == (0,)


def is_empty_cut(flow: Flow, maker: int | None, places: tuple[int, ...]) -> bool:
    """Whether a step takes none of the rows of the places, as where a model has no class token."""
    if maker is None or flow.output(maker).shape[-2:-1] != (0,):
        return False
    return any(record.shape[-2:-1] == places for record in flow.steps[maker].inputs)


def is_narrowed(flow: Flow, side: Side) -> bool:
    """Whether one linear layer of a side reads what another one made: a waist."""
    return any(waist_before(flow, side, node) is not None for node in side.projections)


def waist_before(flow: Flow, side: Side, projection: int) -> int | None:
    """How wide the waist before a linear layer is, if another one of the same side made it."""
    number = data_input(flow, projection)
    if number is None:
        return None
    here = flow.makers[projection][number]
    for _ in range(24):
        if here is None or here not in side.nodes:
            return None
        if here in side.projections:
            record = flow.steps[projection].inputs[number]
            made = width_out(flow, here)
            width = min(record.shape[-1], made)  # rows may stand beside themselves (A.X K2)
            is_cut = width < made and prod(record.shape) == prod(flow.output(here).shape)  # into heads (Transolver)
            is_waist = record.shape[-1] < width_out(flow, projection) and width < (width_in(flow, here) or 0)
            return width if is_waist and not is_cut else None
        norm = find_norm(flow, here)
        if norm is not None and norm.origin is not None:
            here = norm.origin
        elif (flow.op(here) in CARRYING | {"cat", "copy_"} or is_scale(flow, here)) and flow.makers[here]:
            here = next((maker for maker in reversed(flow.makers[here]) if maker is not None), None)
        else:
            return None
    return None


def read_latent(flow: Flow, query: Side, key: Side, value: Side) -> Latent | None:
    """The waists that queries, and keys and values together, are made through; None if there are none."""
    q = next((w for node in reversed(query.projections) if (w := waist_before(flow, query, node))), None)
    kv = next((w for node in reversed(value.projections) if (w := waist_before(flow, value, node))), None)
    keys = next((w for node in reversed(key.projections) if (w := waist_before(flow, key, node))), None)
    shared = {*key.projections} & {*value.projections}
    if kv is None or kv != keys or shared <= set(query.nodes):
        return None
    return Latent(q, kv, count_kept(flow, key, value))


def count_kept(flow: Flow, key: Side, value: Side) -> int | None:
    """How many numbers a cache keeps of each place, if it keeps the waist; None where it does not, or is not read."""
    kept = {node for node in key.nodes | value.nodes if is_kept(flow, node)}
    ups = [node for node in value.projections if waist_before(flow, value, node) is not None]
    waist = {
        node for node in kept for up in ups if node < up and node in flow.behind(up, within=value.nodes.__contains__)
    }
    late = {node for node in kept & value.nodes if ups and node > ups[-1]}
    return None if not waist or late else sum(prod_of_row(flow, node) for node in kept)


def prod_of_row(flow: Flow, node: int) -> int:
    """How many numbers a step makes for one place of one sequence."""
    shape = flow.output(node).shape
    return prod(shape[1:-2]) * shape[-1]


def is_kept(flow: Flow, node: int) -> bool:
    """Whether a step puts rows behind those that were kept from before, or that begin with these: a cache."""
    step = flow.steps[node]
    if step.op not in JOINS or len(step.inputs) != 2 or not step.outputs or len(step.outputs[0].shape) < 3:
        return False
    before, maker = next(flow.given(node))
    is_first = 0 in before.shape and step.inputs[1].shape == step.outputs[0].shape
    return is_first or (maker is None and before.role != "parameter")


def find_norm_of(flow: Flow, side: Side) -> Norm | None:
    """The norm of an operand behind its last linear layer, before or after it is turned; None if there is none."""
    if side.last is None:
        return None
    norms = (find_norm(flow, node) for node in sorted(side.nodes) if node > side.last)
    return next((norm for norm in norms if norm is not None and is_behind(flow, norm, side)), None)


def name_normed(flow: Flow, norms: Sequence[Norm], widths: Sequence[int | None]) -> Literal["head", "width"] | None:
    """What norms of queries and keys act on: the numbers of one head, or of all heads of a row, as wide as told."""
    sizes = [flow.output(norm.end).shape[-1:] for norm in norms]
    head, *rest = widths
    if all(size == (head,) for size in sizes):
        return "head"
    return "width" if sizes == [(width,) for width in rest] else None


def name_kind(flow: Flow, norms: Sequence[Norm]) -> NormKind | None:
    """The kind of norms; None where they are of several, or one's is not known."""
    kinds = {name_norm(flow, norm) for norm in norms}
    return kinds.pop() if len(kinds) == 1 else None


def is_behind(flow: Flow, norm: Norm, side: Side) -> bool:
    """Whether what a norm reads comes from the side's last linear layer: moved, scaled, turned or convolved at most."""

    def is_way(here: int) -> bool:
        return here in side.nodes and (here == side.last or flow.op(here) in TURNED | FINDINGS)

    return side.last is not None and side.last in flow.behind(norm.origin, within=is_way)


def is_plain(flow: Flow, side: Side, region: Region) -> bool:
    """Whether nothing is done to an operand but to project, move, scale and normalise it: no neighbours are let in.

    And that by learned numbers, or by its own, alone: others may be such of places (nGPT turns by a product alone).
    """
    normed = list_normed(flow, side)
    for node in side.nodes:
        if flow.op(node) in FINDINGS and overlaps(flow, node):
            return False
        if node in side.projections or node in normed or (side.last is not None and node < side.projections[0]):
            continue
        if is_by_place(flow, node):
            continue
        given = list(flow.given(node))[flow.op(node) == "copy_" :]  # the first of its is written over
        if flow.op(node) in SUMS and not any(one.role == "parameter" or len(one.shape) < 2 for one, _ in given):
            return False
        others = [one for one in given if one[1] not in side.nodes and one[1] != region.start]
        if not all(prod(record.shape) < 2 or is_of_weights(flow, record, maker) for record, maker in others):
            return False
    return True


def overlaps(flow: Flow, convolution: int) -> bool:
    """Whether a convolution reads of each place what stands next to it, and not pieces that lie end to end (PVT)."""
    kernel, stride = (read_sizes(flow, convolution, name) for name in ("kernel_size", "stride"))
    return max(kernel, default=1) > max(stride, default=1)


def list_normed(flow: Flow, side: Side) -> frozenset[int]:
    """The steps of all norms of an operand."""
    norms = (find_norm(flow, node) for node in side.nodes)
    return frozenset(node for norm in norms if norm is not None for node in norm.nodes)


def is_laid_on_others(flow: Flow, nodes: Collection[int], region: Region) -> bool:
    """Whether a sum on the way of keys and values adds one row of a branch to many others (ProteinBERT)."""
    for node in nodes:
        given, mine = flow.steps[node].inputs, region.inner | {region.start}
        if flow.op(node) not in SUMS or len(given) != 2 or given[0].shape == given[1].shape:
            continue
        whole = [maker for record, maker in flow.given(node) if record.shape == flow.output(node).shape]
        if any(one is not None and one not in mine and flow.output(one).shape[0] > 1 for one in whole):
            return True
    return False
