"""Axis words from what operations do: axes that must be the same are joined, and a group takes the word of any of them.

Addition joins the axes of its operands, a transpose joins them crosswise, a matrix product joins rows, columns and what
is between, a reshape remembers what it cut and joined. Attention then tells which axis is the batch, which heads, which
d_k and which the words of a sequence; normalisation and embeddings tell d_model; and the words travel along the data to
every other step. Equal sizes keep their own names, since sizes alone name nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xray.capture.axes.groups import Groups
from xray.capture.axes.joins import Tensors, join_step
from xray.capture.freezing import make_fact
from xray.capture.kernels.fused import ATTENTIONS
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace

PRODUCTS = {"heads*d_k": "d_model"}
"""What a product is called where something of that name has the same size: d_k is d_model / heads."""
ACTIVATIONS = frozenset({"relu", "gelu", "silu", "relu_", "silu_", "tanh", "quick_gelu", "mish", "hardswish"})
PRODUCTS_OF_MATRICES = frozenset({"matmul", "bmm", "baddbmm", "einsum"})
HEADS_OF_WORDS = frozenset({"lm_head", "generator", "vocab_head", "output_projection", "to_logits"})

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
        self.groups = Groups()
        self.d_k = 0
        self.at = {step.id: Tensors(step, self.groups) for step in one_pass.steps}
        self.readers: dict[str, list[Step]] = {}
        for step in one_pass.steps:
            for record in step.inputs:
                if record.source is not None:
                    self.readers.setdefault(record.source, []).append(step)

    def name(self) -> Pass:
        """The pass, every axis with the word that is known for it."""
        one_pass, groups = self.one_pass, self.groups
        self.take_hints()
        self.take_words()
        for step in one_pass.steps:
            self.join_sources(step)
        for step in one_pass.steps:
            join_step(step, self.at[step.id], groups)
        for places in self.links.values():
            self.join_same(places)
        self.name_attention()
        self.name_widths()
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

    def name_attention(self) -> None:
        """Attention is (batch, heads, queries, keys), or with the first two in one, (batch*heads, queries, keys)."""
        lengths = self.find_lengths()
        for step in self.one_pass.steps:
            at = self.at[step.id]
            skip = 1 if step.op == "baddbmm" else 0
            rank = len(step.outputs[0].shape) if step.outputs else 0
            if rank not in (3, 4) or len(step.inputs) < skip + 2 or len(step.inputs[skip].shape) != rank:
                continue
            if step.op in ATTENTIONS and rank == 4:
                self.name_scores(at.ins[0], at.ins[1] + 2, rank, lengths)
                self.name_kept(at.ins[1], rank)
                self.name_kept(at.ins[2], rank)
            elif step.op in PRODUCTS_OF_MATRICES and self.leads_to_softmax(step):
                self.name_scores(at.ins[skip], at.outs[0] + rank - 1, rank, lengths)
                if rank == 4 and len(step.inputs[skip + 1].shape) == 4:
                    self.name_key_heads(at.ins[skip + 1] + 1)
            elif step.op in PRODUCTS_OF_MATRICES and self.comes_from_softmax(step.inputs[skip]):
                self.name_kept(at.ins[skip + 1], rank)

    def name_scores(self, query: int, keys: int, rank: int, lengths: Mapping[int, str]) -> None:
        if self.name_first_axes(query, rank):
            self.groups.name(query + rank - 1, "d_k")
            self.d_k = self.groups.size(query + rank - 1)
            for axis in (query + rank - 2, keys):
                self.groups.name(axis, lengths.get(self.groups.find(axis), ""))

    def name_kept(self, kept: int, rank: int) -> None:
        """Keys or values: their heads, which may be fewer, and how wide they are in each."""
        if rank == 4:
            self.name_key_heads(kept + 1)
        self.groups.name(kept + rank - 1, "d_k" if self.groups.size(kept + rank - 1) == self.d_k else "d_v")

    def comes_from_softmax(self, record: TensorRecord, reach: int = 4) -> bool:
        """Whether a tensor is attention weights: a softmax, then nothing but dropout and the like."""
        maker = self.one_pass.by_id.get(record.source or "")
        if maker is None or not maker.inputs or reach == 0:
            return False
        return maker.op == "softmax" or (
            maker.op in ("dropout", "to", "type_as", "view", "contiguous", "expand", "mul", "native_dropout")
            and self.comes_from_softmax(maker.inputs[0], reach - 1)
        )

    def name_first_axes(self, query: int, rank: int) -> bool:
        """Name batch and heads; whether they could be told."""
        parts = (query, query + 1) if rank == 4 else self.groups.parts(query)
        if len(parts) != 2:
            return False
        self.groups.name(parts[0], "batch")
        self.groups.name(parts[1], "heads")
        return True

    def name_key_heads(self, heads: int) -> None:
        """Fewer key heads than heads: an axis of their own, or what was repeated to make the heads."""
        groups = self.groups
        if groups.word(heads) == "heads" and len(groups.parts(heads)) == 2:
            groups.name(groups.parts(heads)[0], "kv_heads")
        else:
            groups.name(heads, "kv_heads")

    def find_lengths(self) -> dict[int, str]:
        """For the axes of the inputs of the pass that may be the words of a sequence, what they are called."""
        found: dict[int, str] = {}
        for step in self.one_pass.steps:
            if step.parent is not None:
                continue
            for number, record in enumerate(step.inputs):
                if record.source is None and record.role in ("ids", "activation", "mask"):
                    for axis in range(min(3, len(record.shape))):
                        word = name_length(record.name)
                        found.setdefault(self.groups.find(self.at[step.id].ins[number] + axis), word)
        return found

    def name_widths(self) -> None:
        """What embeddings, normalisation and feed-forward say about the axes that no input size moves."""
        groups = self.groups
        vocabularies = {
            step.settings.get("num_embeddings") for step in self.one_pass.steps if step.op == "embedding"
        } - {None}
        has_attention = any(step.op in ATTENTIONS or step.op == "softmax" for step in self.one_pass.steps)
        if not has_attention:
            return
        for step in self.one_pass.steps:
            rank = len(step.outputs[0].shape) if step.outputs else 0
            if rank < 2:
                continue
            last = self.at[step.id].outs[0] + rank - 1
            if step.op.endswith("norm") or (step.op == "embedding" and rank == 3):
                groups.name(last, "d_model")
            elif step.op in ("linear", "conv1d") and "kernel_size" not in step.settings:
                wide = step.settings.get("out_features") in vocabularies and not self.is_read(step)
                if wide or step.path.rsplit(".", 1)[-1] in HEADS_OF_WORDS:
                    groups.name(last, "vocab")
                elif self.is_activated(step):
                    groups.name(last, "d_ff")

    def is_read(self, step: Step) -> bool:
        """Whether a layer of the model goes on with what the step made."""
        return any(reader.module for reader in self.find_readers(step))

    def find_readers(self, step: Step) -> list[Step]:
        """Who reads what the step made; what a block hands on is made inside it."""
        makers = {step.id, *(record.source for record in step.outputs if record.source is not None)}
        return [reader for maker in makers for reader in self.readers.get(maker, ())]

    def is_activated(self, step: Step) -> bool:
        return any(reader.op in ACTIVATIONS or reader.op.endswith("activation") for reader in self.find_readers(step))

    def leads_to_softmax(self, step: Step, reach: int = 5) -> bool:
        """Whether a product is scores: softmax follows within a few steps that keep its rows and columns."""
        for reader in self.readers.get(step.id, ()):
            if reader.op == "softmax":
                return True
            keeps = reader.outputs and reader.outputs[0].shape[-2:] == step.outputs[0].shape[-2:]
            if reach and keeps and reader.id != step.id and self.leads_to_softmax(reader, reach - 1):
                return True
        return False

    def write_words(self, step: Step) -> Step:
        at = self.at[step.id]
        ins, outs = self.write_side(at.ins, step.inputs), self.write_side(at.outs, step.outputs)
        if ins is step.inputs and outs is step.outputs:
            return step
        return make_fact(Step, {**step.__dict__, "inputs": ins, "outputs": outs})

    def write_side(self, firsts: list[int], records: tuple[TensorRecord, ...]) -> tuple[TensorRecord, ...]:
        words = [
            tuple([self.groups.word(first + axis) for axis in range(len(record.shape))])
            for first, record in zip(firsts, records, strict=True)
        ]
        if all(axes == record.axes for axes, record in zip(words, records, strict=True)):
            return records
        return tuple(
            make_fact(TensorRecord, {**record.__dict__, "axes": axes})
            for axes, record in zip(words, records, strict=True)
        )


def name_length(name: str) -> str:
    """The word for the length of a sequence, from the name of the input that brings it."""
    if name.startswith(("tgt", "decoder", "trg", "target")):
        return "tgt_len"
    return "src_len" if name.startswith("src") else "seq_len"
