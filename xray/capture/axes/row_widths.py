"""Axes of rows: how wide streams are, what layers make of them, bent, and bring back, and the words at the end."""

from collections.abc import Collection

from xray.capture.axes.of_pass import PassAxes
from xray.capture.axes.widths import (
    ACTIVATIONS,
    count_rows,
    gates_rows_beside,
    is_beside_words,
    is_factor,
    is_lookup_of_places,
    list_bent_in_writing,
    list_gated_halves,
    reads_alone,
)
from xray.capture.kernels.fused import ATTENTIONS
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.operation_kinds import CLAMPS, SCALINGS, SUMS
from xray.ir.trace import Step

HEADS_OF_WORDS = frozenset({"lm_head", "generator", "vocab_head", "output_projection", "to_logits"})


class WidthNamer:
    """Names the widths of the rows of a pass."""

    def __init__(self, axes: PassAxes) -> None:
        self.axes = axes
        self.one_pass, self.groups, self.at = axes.one_pass, axes.groups, axes.at
        self.readers: dict[str, list[Step]] = {}
        for step in self.one_pass.steps:
            for record in step.inputs:
                if record.source is not None:
                    self.readers.setdefault(record.source, []).append(step)

    def name(self) -> None:
        """d_model is the width of a residual stream, d_ff that of what a layer makes of it, bent, and brings back.

        They are named where something attends, or where the rows of a table go into such a stream.
        """
        groups, flow = self.groups, read_flow(self.one_pass)
        tables = [step for step in self.one_pass.steps if step.id in self.axes.lookups and step.outputs]
        attends = any(step.op in ATTENTIONS or step.op == "softmax" for step in self.one_pass.steps)
        if not attends and not tables:
            return
        layers = self.axes.layers
        ins = {step.id: self.axes.find_read(step) for step in layers}
        outs = {step.id: self.axes.find_last(step) for step in (*layers, *tables)}
        widths = {groups.size(outs[step.id]) for step in tables}
        streams = {self.part_streams(stream, widths) for stream in self.axes.streams}
        if not attends and streams.isdisjoint(outs[step.id] for step in tables):
            return  # no words go into a residual stream, as into one of states (Mamba)
        for stream in streams:
            groups.name(stream, "d_model")
        words = [step for step in tables if outs[step.id] in streams or self.is_read(step)]  # no table of biases
        words = [step for step in words if not is_lookup_of_places(flow, flow.places[step.id])]
        tables_of_words = [flow.places[step.id] for step in words]
        words = [step for step in words if not is_beside_words(flow, flow.places[step.id], tables_of_words)]
        vocabulary = max((count_rows(step) for step in words), default=0)  # not the codes of one codebook (Fish Speech)
        ends = [step for step in layers if outs[step.id] in streams]
        ends = [step for step in ends if not is_factor(flow, flow.places[step.id])]
        back, ways = {ins[step.id] for step in ends}, {(ins[step.id], outs[step.id]) for step in ends}
        written = list_bent_in_writing(flow)
        for step in layers:
            place = flow.places[step.id]
            is_activated = place in written or self.is_activated(step)
            goes_back = (outs[step.id], ins[step.id]) in ways  # not into another stream (Fun-ASR-Nano's projector)
            is_wide = ins[step.id] in streams and goes_back and outs[step.id] not in streams and is_activated
            is_cut = bool(groups.parts(outs[step.id]))  # scores of words are not cut into heads, as keys are
            is_bent = any(reader.op.startswith("sigmoid") for reader in self.find_readers(step))  # nor each bent
            is_other = is_cut or is_bent or is_wide or self.is_read(step)
            scores = step.settings.get("out_features") == vocabulary and not is_other
            if vocabulary and (scores or step.path.rsplit(".", 1)[-1] in HEADS_OF_WORDS):
                groups.name(outs[step.id], "vocab")
            elif is_wide and not gates_rows_beside(flow, place) and not is_factor(flow, place):
                groups.name(outs[step.id], "d_ff")
        for place in list_gated_halves(flow, [flow.places[step.id] for step in layers if ins[step.id] in streams]):
            half = self.axes.find_last(flow.steps[place])
            if half in back - streams:
                groups.name(half, "d_ff")

    def part_streams(self, axis: int, widths: Collection[int]) -> int:
        """The axis of one stream where an axis holds several, one behind the other, each as wide as a table's rows.

        What attention looks along are rows, laid side by side: no streams (the class rows of TabPFN).
        """
        groups, parts = self.groups, self.groups.parts(axis)
        if len(parts) != 2 or groups.size(parts[1]) not in widths or groups.word(parts[1]):
            return axis
        if groups.find(parts[0]) not in self.list_looked_along():
            groups.name(parts[0], "streams")
        return groups.find(parts[1])

    def list_looked_along(self) -> set[int]:
        """The axes of queries and of keys, in all that a softmax shares out along its last axis."""
        shared = [step for step in self.one_pass.steps if step.op == "softmax" and len(step.outputs[0].shape) > 2]
        lasts = ((self.at[step.id].outs[0], len(step.outputs[0].shape)) for step in shared)
        return {self.groups.find(first + rank - back) for first, rank in lasts for back in (1, 2)}

    def is_read(self, step: Step) -> bool:
        """Whether a layer of the model goes on with what the step made."""
        return any(reader.module for reader in self.find_readers(step))

    def find_readers(self, step: Step) -> list[Step]:
        """Who reads what the step made; what a block hands on is made inside it."""
        makers = {step.id, *(record.source for record in step.outputs if record.source is not None)}
        return [reader for maker in makers for reader in self.readers.get(maker, ())]

    def is_activated(self, step: Step) -> bool:
        """Whether what a step made is bent, be it times a number, with a bias, or between bounds (Falcon-H1)."""
        return any(
            reader.op in ACTIVATIONS
            or reader.op.endswith("activation")
            or (reader.op in SCALINGS | SUMS | CLAMPS and reads_alone(reader) and self.is_activated(reader))
            for reader in self.find_readers(step)
        )
