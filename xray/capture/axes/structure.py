"""Axis words from what operations do: axes that must be the same are joined, and a group takes the word of any of them.

Addition joins the axes of its operands, a transpose joins them crosswise, a matrix product joins rows, columns and what
is between, a reshape remembers what it cut and joined. Attention then tells which axis is the batch, which heads, which
d_k and which the words of a sequence; residual sums tell d_model; and the words travel along the data to every other
step. Equal sizes keep their own names, since sizes alone name nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xray.capture.axes.attentions import AttentionNamer
from xray.capture.axes.joins import is_called_norm, join_step, stretch_axes
from xray.capture.axes.of_pass import PassAxes
from xray.capture.axes.pieces import join_cut_axes
from xray.capture.axes.row_widths import WidthNamer
from xray.capture.axes.widths import is_layer
from xray.capture.freezing import make_fact
from xray.ir.flow.operation_kinds import FINDINGS
from xray.ir.flow.written_lookups import LOOKUP
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace

PRODUCTS = {"heads*d_k": "d_model"}
"""What a product is called where something of that name has the same size: d_k is d_model / heads."""

Place = tuple[str, str, int]
"""A tensor at a step: the step's id, "in" or "out", and which of them."""
Links = Mapping[int, Sequence[Place]]
"""Where each tensor was seen: the same axes in all these places."""
Hints = Mapping[str, Sequence[str]]
"""Words for the axes of inputs, by the input's name."""


def name_axes_by_structure(trace: Trace, links: Sequence[Links] = (), hints: Hints | None = None) -> Trace:
    """The same trace: the words that its axes have spread along the data, and those that structure tells added.

    `links` says for each pass which records are of one and the same tensor.
    """
    passes = tuple(
        Namer(one, links[place] if place < len(links) else {}, hints or {}).name()
        for place, one in enumerate(trace.passes)
    )
    return replace(trace, passes=passes)


class Namer:
    """Names the axes of one pass."""

    def __init__(self, one_pass: Pass, links: Links, hints: Hints) -> None:
        self.one_pass = one_pass
        self.links = links
        self.hints = hints
        self.axes = PassAxes(one_pass)
        self.groups, self.at = self.axes.groups, self.axes.at

    def name(self) -> Pass:
        """The pass, every axis with the word that is known for it."""
        one_pass, groups = self.one_pass, self.groups
        self.take_hints()
        self.take_words()
        for step in one_pass.steps:
            self.join_sources(step)
        for step in one_pass.steps:
            stretch_axes(step, self.at[step.id], groups)
        groups.freeze_stretched()
        around = {step.parent for step in one_pass.steps if step.op in FINDINGS or is_layer(step)}
        for step in one_pass.steps:
            if step.id not in around or not is_called_norm(step):  # a convolution and its norm are none (iFormer)
                join_step(step, self.at[step.id], groups, LOOKUP if step.id in self.axes.lookups else step.op)
        for places in self.links.values():
            self.join_same(places)
        join_cut_axes(one_pass, self.at, groups)
        AttentionNamer(self.axes).name()
        WidthNamer(self.axes).name()
        groups.name_products(PRODUCTS)
        return Pass(one_pass.kind, one_pass.number, one_pass.tokens, tuple(map(self.write_words, one_pass.steps)))

    def take_hints(self) -> None:
        """What the caller says of the inputs of the pass."""
        for step in self.one_pass.steps:
            for number, record in enumerate(step.inputs):
                words = self.hints.get(record.name) if record.source is None else None
                if words is not None and step.parent is None and len(words) == len(record.shape):
                    for axis, word in enumerate(words):
                        self.groups.name(self.at[step.id].ins[number] + axis, word)

    def take_words(self) -> None:
        """Words that the trace already has."""
        for step in self.one_pass.steps:
            at = self.at[step.id]
            for firsts, records in ((at.ins, step.inputs), (at.outs, step.outputs)):
                for first, record in zip(firsts, records, strict=True):
                    for axis, word in enumerate(record.axes):
                        if word:
                            self.groups.name(first + axis, word)

    def join_sources(self, step: Step) -> None:
        """What a step reads, or hands on, has the axes that it had where it was made."""
        at, by_id = self.at[step.id], self.one_pass.by_id
        for firsts, records in ((at.ins, step.inputs), (at.outs, step.outputs)):
            for first, record in zip(firsts, records, strict=True):
                maker = by_id.get(record.source) if record.source is not None else None
                if maker is None or maker is step:
                    continue
                made = self.at[maker.id].outs
                alike = [n for n, one in enumerate(maker.outputs) if one.shape == record.shape]
                if len(alike) > 1 and self.links:
                    continue  # which of them it is, the links tell
                for place in alike[:1]:
                    for axis in range(len(record.shape)):
                        self.groups.join(made[place] + axis, first + axis)

    def join_same(self, places: Sequence[Place]) -> None:
        firsts = []
        for name, side, number in places:
            if name in self.at:
                at, step = self.at[name], self.one_pass.by_id[name]
                records = step.inputs if side == "in" else step.outputs
                firsts.append(((at.ins if side == "in" else at.outs)[number], records[number].shape))
        for first, shape in firsts[1:]:
            if shape == firsts[0][1]:
                for axis in range(len(shape)):
                    self.groups.join(firsts[0][0] + axis, first + axis)

    def write_words(self, step: Step) -> Step:
        at = self.at[step.id]
        ins, outs = self.write_side(at.ins, step.inputs), self.write_side(at.outs, step.outputs)
        if ins is step.inputs and outs is step.outputs:
            return step
        return make_fact(Step, {**step.__dict__, "inputs": ins, "outputs": outs})

    def write_side(self, firsts: list[int], records: tuple[TensorRecord, ...]) -> tuple[TensorRecord, ...]:
        words = [self.list_words(first, len(record.shape)) for first, record in zip(firsts, records, strict=True)]
        if all(axes == record.axes for axes, record in zip(words, records, strict=True)):
            return records
        return tuple(
            make_fact(TensorRecord, {**record.__dict__, "axes": axes})
            for axes, record in zip(words, records, strict=True)
        )

    def list_words(self, first: int, rank: int) -> tuple[str, ...]:
        """The words of the axes of a tensor, but none that would stand for two sizes in it, be it within a product."""
        words = [self.groups.word(first + axis) for axis in range(rank)]
        if len({*words}) == len(words) and not any("*" in word for word in words):
            return tuple(words)
        sizes: dict[str, set[int]] = {}
        for axis, word in enumerate(words, first):
            for part in self.groups.parts(axis) if "*" in word else (axis,):
                sizes.setdefault(self.groups.word(part), set()).add(self.groups.size(part))
        twice = {word for word, found in sizes.items() if word and len(found) > 1}
        return tuple("" if twice.intersection(word.split("*")) else word for word in words)
