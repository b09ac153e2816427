"""The axes of a pass: in which groups they are, and where those of each tensor begin."""

from collections import Counter
from functools import cached_property

from xray.capture.axes.groups import Groups
from xray.capture.axes.joins import Tensors
from xray.capture.axes.widths import (
    is_layer,
    is_written_layer,
    list_around,
    list_nested,
    list_sums,
)
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.written_lookups import LOOKUP
from xray.ir.trace import Pass, Step


class PassAxes:
    """The axes of one pass, in groups of those that must be the same."""

    def __init__(self, one_pass: Pass) -> None:
        self.one_pass = one_pass
        self.groups = Groups()
        self.at = {step.id: Tensors(step, self.groups) for step in one_pass.steps}

    @cached_property
    def lookups(self) -> frozenset[str]:
        """The steps that pick rows of a table by ids, be that written as an index."""
        return frozenset(step.id for step in read_flow(self.one_pass).steps if step.op == LOOKUP)

    @cached_property
    def layers(self) -> list[Step]:
        """The linear layers over the last axis."""
        flow = read_flow(self.one_pass)
        return [step for step in self.one_pass.steps if is_layer(step) or is_written_layer(flow, step)]

    @cached_property
    def streams(self) -> frozenset[int]:
        """The last axes of residual streams, which layers read.

        What has one sum alone is no stream where others have several: a sound that is made better once (FastSpeech 2);
        nor is one within the branches of another one. Where none has more, one around others is none (E2 TTS).
        """
        flow = read_flow(self.one_pass)
        adds = {place: self.find_last(flow.steps[place]) for place in list_sums(flow)}
        sums = Counter(adds.values())
        lone = max(sums.values(), default=0) == 1
        around = list_around(flow, adds) if lone else set()
        streams = {last for last, many in sums.items() if many > 1 or lone} - around
        return frozenset(streams & set(map(self.find_read, self.layers)) - list_nested(flow, adds))

    def find_read(self, step: Step) -> int:
        """The last axis of what a layer reads."""
        return self.groups.find(self.at[step.id].ins[0] + len(step.inputs[0].shape) - 1)

    def find_last(self, step: Step) -> int:
        """The last axis of what a step makes."""
        return self.groups.find(self.at[step.id].outs[0] + len(step.outputs[0].shape) - 1)
