"""A pipeline: which layers each stage has, and what crosses each cut, in bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xray.ir.records import TensorRecord
from xray.ir.storage import count_bytes
from xray.ir.trace import Pass, Trace
from xray.story.facts.exchanges import read_mesh


@dataclass(frozen=True)
class Cut:
    """Between two stages: the last layer before it, and the tensors that one rank sends on."""

    after: int
    tensors: tuple[TensorRecord, ...]

    @property
    def bytes(self) -> int:
        """How much one rank sends."""
        return sum(map(size_of, self.tensors))


def list_stages(trace: Trace) -> tuple[range, ...]:
    """The layers of each stage: as many each, the last one takes what is left. None where there is no pipeline."""
    stages = read_mesh(trace).get("pp", 1)
    layers = 1 + max((step.layer for step in trace.steps if step.layer is not None), default=-1)
    if stages < 2 or layers < stages:
        return ()
    each = layers // stages
    return tuple(
        range(number * each, layers if number == stages - 1 else (number + 1) * each) for number in range(stages)
    )


def list_cuts(trace: Trace) -> tuple[Cut, ...]:
    """What crosses each cut: what a layer before it has made, and a layer or the head behind it reads.

    What stands before all layers and hangs on no layer, as masks and places, each stage makes for itself.
    """
    stages = list_stages(trace)
    return tuple(
        Cut(stage[-1], tuple(one for each in trace.passes for one in list_crossing(each, stage[-1])))
        for stage in stages[:-1]
    )


def list_crossing(one_pass: Pass, after: int) -> Sequence[TensorRecord]:
    """The tensors of a pass that are made up to a layer and read behind it, each once."""
    steps = one_pass.leaves
    numbers = {step.id: place for place, step in enumerate(one_pass.steps)}
    last = max((numbers[step.id] for step in steps if step.layer is not None), default=0)
    found: dict[str, TensorRecord] = {}
    for step in steps:
        is_behind = step.layer > after if step.layer is not None else numbers[step.id] > last
        for record in step.inputs if is_behind else ():
            maker = one_pass.by_id.get(record.source or "")
            if maker is not None and maker.layer is not None and maker.layer <= after:
                found.setdefault(maker.id, record)
    return tuple(found.values())


def size_of(record: TensorRecord) -> int:
    """The bytes of what this rank has of a tensor."""
    return count_bytes(record if record.local is None else replace(record, shape=record.local))
