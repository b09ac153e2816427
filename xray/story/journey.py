"""One column of the poster: the passes that go through one side of the model in one phase, read together."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.story.shapes import ShapeText, read_shape

Phase = Literal["training", "inference"]
"""What a pass is part of."""

Side = Literal["encoder", "decoder"]
SIDES: tuple[Side, ...] = ("encoder", "decoder")


def key_of(one_pass: Pass) -> str:
    """What a pass is called in ids: its kind, and its number where it has one."""
    return f"{one_pass.kind}{one_pass.number or ''}"


@dataclass(frozen=True)
class Journey:
    """The steps of one side in one phase; a decoder's inference has one pass for every turn."""

    phase: Phase
    side: Side
    passes: tuple[Pass, ...]

    @property
    def first(self) -> Pass:
        """The first pass: the only one, or decode turn 1."""
        return self.passes[0]

    @property
    def last(self) -> Pass:
        """The last pass: the one with the longest answer."""
        return self.passes[-1]

    def steps(self, path: str) -> tuple[tuple[int, Step], ...]:
        """The step of that path in every pass that has it, with the pass's number."""
        found = ((one_pass.number, one_pass.by_id.get(f"{path}#0")) for one_pass in self.passes)
        return tuple((number, step) for number, step in found if step is not None)

    def step(self, path: str) -> Step | None:
        """The step of that path in the first pass that has it."""
        steps = self.steps(path)
        return steps[0][1] if steps else None

    def output(self, path: str, place: int = 0) -> ShapeText | None:
        """The shape of one output of a step."""
        found = [(number, step.outputs[place]) for number, step in self.steps(path) if len(step.outputs) > place]
        return read_shape(found) if found else None

    def input(self, path: str, name: str) -> ShapeText | None:
        """The shape of the input of that name."""
        found = [(number, record) for number, step in self.steps(path) for record in step.inputs if record.name == name]
        return read_shape(found) if found else None

    def identity(self, path: str) -> str:
        """What id the step has on the poster: pass and step id."""
        home = next((one for one in self.passes if f"{path}#0" in one.by_id), self.first)
        return f"{key_of(home)}/{path}#0"

    def identities(self, *paths: str) -> tuple[str, ...]:
        """What steps a node stands for: pass and step id."""
        return tuple(f"{key_of(self.first)}/{path}#0" for path in paths)

    def tell(self, *paths: str) -> str:
        """A tooltip for a node that stands for these steps."""
        tips = (describe(self.steps(path)) for path in dict.fromkeys(paths))
        return "\n".join(tip for tip in tips if tip)

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """The numbers of the side's layers, in order."""
        prefix = f"{self.side}.layers."
        return tuple(
            sorted({step.layer for step in self.first.steps if step.layer is not None and step.path.startswith(prefix)})
        )

    @property
    def layer(self) -> str:
        """The path of the layer that is shown in full."""
        return f"{self.side}.layers.{self.layers[0] if self.layers else 0}"


@dataclass(frozen=True)
class Tale:
    """A trace of X-Ray's transformer by side and phase; `params` counts the model's parameters, 0 if not known."""

    trace: Trace
    encoder: tuple[Journey, ...]
    decoder: tuple[Journey, ...]
    params: int = 0

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that were recorded, training first."""
        return tuple(journey.phase for journey in self.encoder)

    @property
    def goes_back(self) -> bool:
        """Whether back-propagation was recorded: a loss alone is no training step."""
        return any(journey.steps("backward") for journey in self.decoder)

    @property
    def has_loss(self) -> bool:
        """Whether a loss was worked out, or tried."""
        return any(journey.steps("loss.cross_entropy") for journey in self.decoder)

    def journeys(self, side: Side) -> tuple[Journey, ...]:
        """All journeys of a side."""
        return self.encoder if side == "encoder" else self.decoder

    def journey(self, side: Side, phase: Phase) -> Journey | None:
        """The journey of that side and phase."""
        return next((journey for journey in self.journeys(side) if journey.phase == phase), None)


def read_tale(trace: Trace) -> Tale | None:
    """The trace as a tale in nine stations; None if it is not of X-Ray's transformer, or not whole."""
    encoder: list[Journey] = []
    decoder: list[Journey] = []
    training = trace.passes_of("training")[:1]
    if training:
        encoder.append(Journey("training", "encoder", training))
        decoder.append(Journey("training", "decoder", training))
    encode, decode = trace.passes_of("encode")[:1], trace.passes_of("decode")
    if encode and decode:
        encoder.append(Journey("inference", "encoder", encode))
        decoder.append(Journey("inference", "decoder", decode))
    whole = encoder and all(is_whole(journey) for journey in (*encoder, *decoder))
    return Tale(trace, tuple(encoder), tuple(decoder), params=count_model(trace)) if whole else None


def count_model(trace: Trace) -> int:
    """The parameters of the outermost module, 0 where none was recorded."""
    return next((step.params for step in trace.steps if step.depth == 0 and step.params and step.path[:1].isupper()), 0)


def is_whole(journey: Journey) -> bool:
    """Whether every step that a poster cannot do without was recorded, and returned; what follows may have failed."""
    attentions = ("self_attention",) if journey.side == "encoder" else ("self_attention", "cross_attention")
    parts = "query key value split_query split_key split_value transpose_key scores scale softmax weighted_sum concat"
    needed = [f"{journey.side}.embedding.{part}" for part in ("words", "positions", "add")]
    needed += [f"{journey.side}.layers.0.feed_forward.{part}" for part in ("expand", "contract")]
    for attention in attentions:
        needed += [f"{journey.side}.layers.0.{attention}.{part}" for part in (*parts.split(), "output")]
        needed += [f"{journey.side}.layers.0.{attention}_{part}" for part in ("add", "norm")]
    needed += ["src_mask"] if journey.side == "encoder" else ["tgt_mask.combine"]
    found = [journey.steps(path) for path in needed]
    ended = journey.side == "encoder" or journey.steps("head")
    return bool(ended) and all(steps and all(step.outputs for _, step in steps) for steps in found)


def describe(steps: Iterable[tuple[int, Step]]) -> str:
    """A tooltip: path, shapes in and out, axes, parameters, type and place in the code."""
    listed = list(steps)
    if not listed:
        return ""
    step = listed[0][1]
    inputs = ", ".join(name_shape(record) for record in step.inputs)
    outputs = ", ".join(name_shape(record) for record in step.outputs[:3])
    lines = [step.path, f"{inputs} → {outputs}" if inputs else outputs]
    kinds = sorted({record.dtype for record in step.outputs})
    lines.append(f"{step.module} · {step.params:,} parameters · {', '.join(kinds)}")
    if step.settings.get("derived"):
        lines.append("derived: one kernel does it all and never stores this")
    if len(listed) > 1:
        lines.append(f"turn {listed[0][0]} of {len(listed)}")
    if step.location:
        lines.append(step.location)
    if step.error:
        lines.append(f"failed: {step.error}")
    return "\n".join(lines)


def name_shape(record: TensorRecord) -> str:
    size = "×".join(map(str, record.shape)) or "one number"
    axes = " × ".join(axis or "?" for axis in record.axes)
    return f"{record.name} {size} ({axes})" if axes else f"{record.name} {size}"
