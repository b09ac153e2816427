"""Axes of attentions: which of them is the batch, which heads, which d_k, and which the words of a sequence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xray.capture.axes.of_pass import PassAxes
from xray.capture.axes.widths import (
    is_layer,
)
from xray.capture.kernels.fused import ATTENTIONS
from xray.ir.flow.attention_sites import lies_in_columns, list_sites
from xray.ir.flow.dataflow import Flow, read_flow
from xray.ir.flow.mixed_heads import read_mixing
from xray.ir.flow.projections import data_input
from xray.ir.flow.softmax_axis import read_equation, read_pair
from xray.ir.records import TensorRecord
from xray.ir.trace import Step

MOST_LAYINGS = 8


@dataclass(frozen=True)
class Scores:
    """Where the axes of an attention are: the first of them, how many, the one summed over, queries and keys."""

    first: int
    rank: int
    summed: int
    queries: int
    keys: int


class AttentionNamer:
    """Names the axes of the attentions of a pass."""

    def __init__(self, axes: PassAxes) -> None:
        self.axes = axes
        self.one_pass, self.groups, self.at = axes.one_pass, axes.groups, axes.at
        self.d_k = 0

    def name(self) -> None:
        """Attention is (batch, heads, queries, keys), or with the first two in one, (batch*heads, queries, keys)."""
        lengths = self.find_lengths()
        for step in self.one_pass.steps:
            at = self.at[step.id]
            if step.op in ATTENTIONS and are_of_rank(step, 0, (4,)):
                scores = Scores(at.ins[0], 4, at.ins[0] + 3, at.ins[0] + 2, at.ins[1] + 2)
                has_heads = self.name_scores(scores, lengths)
                self.name_kept(at.ins[1], step.inputs[1], has_heads=has_heads)
                self.name_kept(at.ins[2], step.inputs[2], has_heads=has_heads)
        flow = read_flow(self.one_pass)
        for site in list_sites(flow):
            if lies_in_columns(flow, site):
                continue  # pieces of rows meet there, and their axes are others
            for node in site.mixed:
                self.join_mixed(flow, node)
            are_heads_known = self.name_product(flow.steps[site.scores], lengths)
            weights = {site.softmax, *site.weighed}
            makers = flow.makers[site.weighted_sum]
            self.name_sum(
                flow.steps[site.weighted_sum],
                [not weights.isdisjoint((one, flow.carried_from(one))) for one in makers],
                are_heads_known=are_heads_known,
            )

    def join_mixed(self, flow: Flow, node: int) -> None:
        """A step that mixes heads leaves each axis what it was, be they laid out anew."""
        at, data, mixing = self.at[flow.steps[node].id], data_input(flow, node), read_mixing(flow, node)
        for axis, before in enumerate(() if mixing is None or data is None else mixing[1]):
            self.groups.join(at.outs[0] + axis, at.ins[data or 0] + before)

    def name_product(self, step: Step, lengths: Mapping[int, str]) -> bool:
        """Queries times keys: the axes of what comes out, and the one that is summed over; whether heads were told."""
        at, skip = self.at[step.id], len(step.inputs) - 2
        if step.op == "einsum":
            return self.name_equation(step, lengths)
        if are_of_rank(step, skip, (3, 4)):
            rank, out = len(step.outputs[0].shape), at.outs[0]
            summed = at.ins[skip] + rank - 1
            is_told = self.name_scores(Scores(at.ins[skip], rank, summed, summed - 1, out + rank - 1), lengths)
            if is_told and rank == 4 and len(step.inputs[skip + 1].shape) == 4:
                self.name_key_heads(at.ins[skip + 1] + 1, step.inputs[skip + 1])
            return is_told
        self.d_k = step.inputs[skip].shape[-1]  # values of as many numbers are as wide as keys (TransNeXt's windows)
        return False

    def name_equation(self, step: Step, lengths: Mapping[int, str]) -> bool:
        """The same by the letters of an einsum: batch is shared by both operands, be it the last axis of the result."""
        letters = read_equation(step)
        if letters is None or len(letters[2]) != 4 or len(letters[0]) != len(step.inputs[0].shape):
            return False
        left, right, made = letters
        summed = [place for place, letter in enumerate(left) if letter in right and letter not in made]
        if len(summed) != 1 or any(letter not in left + right for letter in made):
            return False
        axes = {letter: self.at[step.id].outs[0] + place for place, letter in enumerate(made)}
        first = self.at[step.id].ins[0] + summed[0]
        heads = [one for one in made if self.is_cut_into_heads(axes[one], first)]
        if not heads and is_conventional(letters):
            if self.are_pieces(axes[made[1]], axes[made[2]]):
                self.name_folded(axes[made[0]], first)
                self.name_looking(first, (), lengths)
                return False
            is_turned = self.are_firsts(axes[one] for one in made[:2]) == [False, True]
            heads = [made[0] if is_turned else made[1]]
        if len(heads) != 1:
            return False
        batch = [one for one in made if one in left and one in right and one not in heads]
        if len(batch) == 1 and self.may_be_batch(axes[batch[0]]):
            self.groups.name(axes[batch[0]], "batch")
        self.groups.name(axes[heads[0]], "heads")
        rest = [axes[one] for one in made if one not in (*heads, *batch)]
        self.name_looking(first, rest, lengths)
        return True

    def is_cut_into_heads(self, axis: int, summed: int) -> bool:
        """Whether one axis of rows was cut into an axis and, within it, that which queries and keys are summed over."""
        pair = [self.groups.find(axis), self.groups.find(summed)]
        return any(list(map(self.groups.find, parts[-2:])) == pair for _, parts in self.groups.list_products())

    def name_sum(self, step: Step, are_weights: list[bool], *, are_heads_known: bool) -> None:
        """Weights times values: an einsum says by its letters which axis only the values bring."""
        at, skip = self.at[step.id], len(step.inputs) - 2
        letters = read_equation(step)
        if letters is not None and are_weights[0] != are_weights[1] and len(letters[0]) == len(step.inputs[0].shape):
            place = 1 if are_weights[0] else 0
            own = [n for n, one in enumerate(letters[place]) if one not in letters[1 - place] and one in letters[2]]
            if len(own) == 1:
                self.name_width(at.ins[place] + own[0])
        elif step.op != "einsum" and are_of_rank(step, skip, (3, 4)):
            rank = len(step.outputs[0].shape)
            if are_weights[skip:] == [False, True]:
                self.name_width(at.ins[skip] + rank - 2)  # channels first: the weights lie on their side (SHViT)
            else:
                self.name_kept(at.ins[skip + 1], step.inputs[skip + 1], rank, has_heads=are_heads_known and rank == 4)

    def are_pieces(self, axis: int, rows: int) -> bool:
        """Whether an axis, and one of rows within it, were one axis along which layers find rows: no axis of heads."""
        return any(
            list(map(self.groups.find, parts[-2:])) == [self.groups.find(axis), self.groups.find(rows)]
            and self.is_of_rows(whole)
            for whole, parts in self.groups.list_products()
        )

    def name_folded(self, first: int, summed: int) -> None:
        """Batch and heads that are one axis, in front of the pieces that rows were cut into (local attention)."""
        parts = self.groups.parts(first)
        if len(parts) == 2 and self.is_cut_into_heads(parts[1], summed):
            self.name_pair(parts)

    def name_scores(self, scores: Scores, lengths: Mapping[int, str]) -> bool:
        """The axes of scores, of which the second may be heads; whether it is, or heads lie in the first of three."""
        if scores.rank == 4 and self.are_pieces(scores.first + 1, scores.first + 2):
            self.name_folded(scores.first, scores.summed)
            self.name_looking(scores.summed, (), lengths)
            return False
        looking = (scores.queries, scores.keys)
        are_cut = [self.is_cut_into_heads(axis, scores.summed) for axis in (scores.first + 1, *looking)]
        if scores.rank == 4 and are_cut == [False, True, True]:
            for heads in looking:  # of one place: they were not brought before the places
                self.name_pair((scores.first, heads))
            self.name_looking(scores.summed, (scores.first + 1,), lengths)
            return False
        is_told = self.name_first_axes(scores.first, scores.rank, scores.summed)
        if is_told:
            self.name_looking(scores.summed, looking, lengths)
        return is_told

    def name_looking(self, summed: int, rows: Sequence[int], lengths: Mapping[int, str]) -> None:
        """The axis that queries and keys are summed over, and those along which they lie."""
        if not self.is_of_rows(summed):
            self.d_k = self.groups.size(summed)
            self.name_head(summed, "d_k")
        for axis in rows:
            self.groups.name(axis, lengths.get(self.groups.find(axis), ""))

    def name_kept(self, kept: int, record: TensorRecord, rank: int = 4, *, has_heads: bool = True) -> None:
        """Keys or values: their heads, which may be fewer, and how wide they are in each."""
        if has_heads:
            self.name_key_heads(kept + 1, record)
        self.name_width(kept + rank - 1)

    def name_width(self, axis: int) -> None:
        """How wide values are in each head: as wide as keys, or as they please.

        What weights are multiplied by is no values where it has rows of scores for numbers, as the inverse of a square
        of weights (Nyström attention).
        """
        if not self.is_of_rows(axis) and self.groups.find(axis) not in self.compared:
            self.name_head(axis, "d_k" if self.groups.size(axis) == self.d_k else "d_v")

    def name_head(self, axis: int, word: str) -> None:
        """The width of a head, unless it is that of a stream: one head that no layer leads out of (T2T-ViT)."""
        if self.groups.find(axis) not in self.axes.streams:
            self.groups.name(axis, word)

    def name_first_axes(self, query: int, rank: int, summed: int) -> bool:
        """Name batch and heads; whether they could be told.

        Heads come first where that axis, and not the one behind it, was cut from rows with what is summed over, or the
        one behind it is the first of what came in. Where neither is as long as a batch, and neither was cut so, they
        are others: blocks of places, behind heads that lie in one axis with the batch (HaloNet).
        """
        parts = (query, query + 1) if rank == 4 else self.groups.parts(query)
        if rank == 4 and not any(self.may_be_batch(one) or self.is_cut_into_heads(one, summed) for one in parts):
            self.name_looking(summed, (), {})
            return False
        if len(parts) == 2:
            is_turned = [self.is_cut_into_heads(one, summed) for one in parts] == [True, False]
            is_turned = is_turned or self.are_firsts(parts) == [False, True]
            self.name_pair(parts[::-1] if is_turned else parts)
        return len(parts) == 2

    def are_firsts(self, axes: Iterable[int]) -> list[bool]:
        """Whether each of some axes is the first one of what came in."""
        firsts = {self.groups.find(first) for first, one in self.given if one.shape}
        return [self.groups.find(one) in firsts for one in axes]

    def name_pair(self, parts: Sequence[int]) -> None:
        """Two axes of which the first may be the batch, and the second is heads."""
        if self.may_be_batch(parts[0]):
            self.groups.name(parts[0], "batch")
        self.groups.name(parts[1], "heads")

    def is_of_rows(self, axis: int) -> bool:
        """Whether layers find rows along an axis: where channels look at each other, it is no width (DaViT).

        So it is of the places of a map, all its axes in one, where convolutions make what channels are (Restormer).
        """
        parts = {self.groups.find(one) for one in self.groups.parts(axis)}
        return self.groups.find(axis) in self.rows or (len(parts) > 1 and parts <= self.of_maps)

    @cached_property
    def compared(self) -> frozenset[int]:
        """The axes along which queries and keys of each attention lie: in its scores, or as one kernel reads them."""
        flow = read_flow(self.one_pass)
        met = [(flow.steps[site.scores], flow.steps[site.softmax]) for site in list_sites(flow)]
        pairs = [(product, read_pair(product, softmax)) for product, softmax in met if product.outputs]
        lasts = [(self.at[one.id].outs[0] + len(one.outputs[0].shape), pair) for one, pair in pairs]
        fused = [step for step in self.one_pass.steps if step.op in ATTENTIONS and len(step.inputs) > 1]
        read = [self.at[step.id].ins[at] + len(step.inputs[at].shape) - 2 for step in fused for at in (0, 1)]
        return frozenset(map(self.groups.find, read + [last + back for last, pair in lasts for back in pair]))

    @cached_property
    def rows(self) -> frozenset[int]:
        """The axes along which layers find rows, and not the numbers of one."""
        layers = [step for step in self.one_pass.steps if is_layer(step)]
        places = ((self.at[step.id].ins[0], len(step.inputs[0].shape) - 1) for step in layers)
        return frozenset(self.groups.find(first + axis) for first, last in places for axis in range(last))

    @cached_property
    def of_maps(self) -> frozenset[int]:
        """The axes along which convolutions go."""
        convolutions = (step for step in self.one_pass.steps if step.op.startswith("conv") and step.outputs)
        axes = ((self.at[step.id].ins[0], len(step.inputs[0].shape)) for step in convolutions if step.inputs)
        return frozenset(self.groups.find(first + axis) for first, rank in axes for axis in range(2, rank))

    def may_be_batch(self, axis: int) -> bool:
        """Whether an axis may be of sequences: as long as one that came in, but no windows, and no pieces.

        Nor is it one along which places look at each other, or that holds several, as frames of all films do.
        """
        folded = sum(self.groups.size(part) > 1 for part in self.groups.parts(axis))
        if folded > 1 or self.groups.find(axis) in self.compared | self.frames:
            return False
        return not self.given_sizes or self.groups.size(axis) in self.given_sizes

    @cached_property
    def given(self) -> list[tuple[int, TensorRecord]]:
        """What the outermost steps read but for their parameters, with where the axes of each begin."""
        outer = (step for step in self.one_pass.steps if step.parent is None)
        given = (pair for step in outer for pair in zip(self.at[step.id].ins, step.inputs, strict=True))
        return [(first, one) for first, one in given if one.role != "parameter"]

    @cached_property
    def given_sizes(self) -> frozenset[int]:
        """How long the first two axes are of what came in, or the first of more than three."""
        return frozenset(size for _, one in self.given for size in one.shape[: 1 if len(one.shape) > 3 else 2])

    @cached_property
    def frames(self) -> frozenset[int]:
        """The second axes of what came in with more than three: frames or channels, of whatever number."""
        return frozenset(self.groups.find(first + 1) for first, one in self.given if len(one.shape) > 3)

    def name_key_heads(self, heads: int, keys: TensorRecord) -> None:
        """Fewer key heads than heads: an axis of their own, or what was repeated to make the heads.

        What only the queries were cut by is none of theirs: how many experts make the queries of a place (JetMoe). An
        axis that holds heads of all sequences is no axis of key heads (Anchor DETR).
        """
        groups = self.groups
        if groups.word(heads) == "heads" and len(groups.parts(heads)) == 2:
            if self.was_laid_along(keys, groups.parts(heads)[0]):
                groups.name(groups.parts(heads)[0], "kv_heads")
        elif "heads" not in map(groups.word, groups.parts(heads)):
            groups.name(heads, "kv_heads")

    def was_laid_along(self, record: TensorRecord, axis: int) -> bool:
        """Whether one of the steps that a tensor comes from gave something along an axis."""
        for _ in range(MOST_LAYINGS):
            step = self.one_pass.by_id.get(record.source or "")
            if step is None or not step.outputs:
                return False
            first = self.at[step.id].outs[0]
            if any(
                self.groups.find(first + one) == self.groups.find(axis) for one in range(len(step.outputs[0].shape))
            ):
                return True
            if not step.inputs:
                return False
            record = step.inputs[0]
        return False

    def find_lengths(self) -> dict[int, str]:
        """For the axes of the inputs of the pass that may be the words of a sequence, what they are called.

        Rows that are none of the ids of that name, though such are looked up, are of something else, of an image say,
        be they as many. So are others than the first rows that are given where no ids are looked up (BLIP-2's queries),
        and what is not as long as the ids of that name, as a memory and the words behind it (Transformer-XL). Where
        what is given is looked at along several of its axes, it is the last of these (the rows of an alignment).
        """
        found: dict[int, str] = {}
        rows: dict[int, None] = {}
        sizes, of_ids = dict[int, int](), set[int]()
        for step in self.one_pass.steps:
            if step.parent is not None:
                continue
            for number, record in enumerate(step.inputs):
                if record.source is None and record.role in ("ids", "activation", "mask"):
                    for axis in range(min(3, len(record.shape))):
                        word, group = name_length(record.name), self.groups.find(self.at[step.id].ins[number] + axis)
                        found.setdefault(group, word)
                        sizes[group] = record.shape[axis]
                        of_ids |= {group} if record.role == "ids" else set()
                    if record.role == "activation" and record.is_float and len(record.shape) == 3:
                        rows[self.groups.find(self.at[step.id].ins[number] + 1)] = None
        named: dict[str, set[int]] = {}
        for group in self.list_looked_up() & found.keys():
            named.setdefault(found[group], set()).add(group)
        for group in rows:
            named.setdefault(found[group], {group})
        others = {one for one in rows if one not in named[found[one]]}
        for first, record in self.given:
            axes = [self.groups.find(first + axis) for axis in range(len(record.shape))]
            earlier = {*[axis for axis in axes if axis in self.compared][:-1]}
            others |= earlier if record.role == "ids" else earlier - of_ids
        lengths = {word: {sizes[one] for one in of_ids if found[one] == word} for word in found.values()}
        return {
            one: word
            for one, word in found.items()
            if one not in others and (not lengths[word] or sizes[one] in lengths[word])
        }

    def list_looked_up(self) -> set[int]:
        """The axes of ids that came in and are looked up in a table as they are."""
        return {
            self.groups.find(self.at[step.id].ins[number] + axis)
            for step in self.one_pass.steps
            if step.id in self.axes.lookups
            for number, record in enumerate(step.inputs)
            if record.role == "ids" and record.source is None
            for axis in range(len(record.shape))
        }


def are_of_rank(step: Step, number: int, ranks: tuple[int, ...]) -> bool:
    """Whether an input of a step has as many axes as what it makes, and these are as many as asked for."""
    rank = len(step.outputs[0].shape) if step.outputs else 0
    return rank in ranks and len(step.inputs) > number + 1 and len(step.inputs[number].shape) == rank


def is_conventional(letters: tuple[str, str, str]) -> bool:
    """Whether letters are (batch, heads, queries, keys): the first two in both operands, each other in one of them."""
    left, right, made = letters
    return [one in left and one in right for one in made] == [True, True, False, False]


def name_length(name: str) -> str:
    """The word for the length of a sequence, from the name of the input that brings it."""
    if name.startswith(("tgt", "decoder", "trg", "target")):
        return "tgt_len"
    return "src_len" if name.startswith("src") else "seq_len"
