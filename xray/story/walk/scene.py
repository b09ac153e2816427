"""One way through a trace: a training step, or the encoded question with one turn of decoding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xray.config import PAD, SPECIAL_TOKENS
from xray.ir.records import Preview, Statistics, TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.story.walk.chapters import Phase, Text
from xray.story.walk.parts import find_parts
from xray.text import show_controls

PADDING = SPECIAL_TOKENS[PAD]
MANY_WORDS = 14
ATTENTION_PARTS = (
    *("query", "key", "value", "split_query", "split_key", "split_value", "transpose_key"),
    *("scores", "scale", "softmax", "weighted_sum", "concat", "output"),
)
OPENING = "encoder.embedding.words"
"""The first part that every scene tells of."""


@dataclass(frozen=True)
class Scene:
    """What a walk looks at: the pass that reads the question and the one that reads the answer, the same in training.

    `turn` is the number of the decode turn, 0 in training.
    """

    trace: Trace
    phase: Phase
    question: Pass
    answer: Pass
    turn: int

    @property
    def is_training(self) -> bool:
        """Whether this is a training step."""
        return self.phase == "training"

    def step(self, path: str) -> Step | None:
        """The step of a part ("encoder.layers.0.self_attention.scores"), wherever in the scene it ran."""
        return find_parts(self.question).steps.get(path) or find_parts(self.answer).steps.get(path)

    def params(self, path: str) -> int:
        """The parameters of a part; 0 where it was not recorded."""
        step = self.step(path)
        counted = find_parts(self.question).params | find_parts(self.answer).params
        return counted.get(path, 0 if step is None else step.params)

    def shape(self, path: str, place: int = 0) -> TensorRecord | str:
        """What a step put out, to be shown as a shape."""
        step = self.step(path)
        return step.outputs[place] if step is not None and len(step.outputs) > place else "(not recorded)"

    def given(self, path: str, place: int = 0) -> TensorRecord | str:
        """What a step read, to be shown as a shape."""
        step = self.step(path)
        return step.inputs[place] if step is not None and len(step.inputs) > place else "(not recorded)"

    def size(self, name: str) -> int:
        """A size as it is in this scene, else as the model has it."""
        return self.answer.sizes.get(name) or self.question.sizes.get(name) or self.trace.sizes.get(name, 0)

    def words(self, name: str) -> tuple[str, ...]:
        """The first sequence's words under a name: "src", "decoder_input", "targets", "new"."""
        for one_pass in (self.answer, self.question):
            rows = one_pass.tokens.get(name, ())
            if rows:
                return tuple(show_controls(word) for word in rows[0])
        return ()

    def real_words(self, name: str) -> tuple[str, ...]:
        """The same without padding."""
        return tuple(word for word in self.words(name) if word != PADDING)

    def preview(self, path: str) -> Preview | None:
        """The values that were kept of what a step put out."""
        step = self.step(path)
        return step.outputs[0].preview if step is not None and step.outputs else None

    def statistics(self, path: str) -> Statistics | None:
        """What the values of a step's output come to."""
        preview = self.preview(path)
        return preview.statistics if preview is not None else None

    def setting(self, name: str, default: str = "") -> str:
        """A setting of the run, as text."""
        value = self.trace.config.get(name, default)
        return default if value is None else str(value)

    def loss(self) -> float | None:
        """The number that the training step ended with."""
        preview = self.preview("loss.cross_entropy")
        value = preview.values[0] if preview is not None and preview.values else None
        return float(value) if isinstance(value, int | float) else None


def list_scenes(trace: Trace) -> tuple[Scene, ...]:
    """The training step and every turn of inference; none for a trace without words, or of no pair of towers."""
    training, encode = (
        [one for one in trace.passes_of(kind)[:1] if OPENING in find_parts(one).steps]
        for kind in ("training", "encode")
    )
    scenes = [Scene(trace, "training", one, one, 0) for one in training]
    if encode:
        scenes += [Scene(trace, "inference", encode[0], one, one.number) for one in trace.passes_of("decode")]
    return tuple(scenes)


def is_whole_journey(trace: Trace) -> bool:
    """Whether a trace has every step that the nine stations tell of; what follows the head may have failed."""
    encode, decode = trace.passes_of("encode")[:1], trace.passes_of("decode")[:1]
    inference = [(encode[0], "encoder"), (decode[0], "decoder")] if encode and decode else []
    training = [(one, side) for one in trace.passes_of("training")[:1] for side in ("encoder", "decoder")]
    journeys = [*training, *inference]
    return bool(journeys) and all(
        (step := find_parts(one_pass).steps.get(path)) is not None and bool(step.outputs)
        for one_pass, side in journeys
        for path in list_needed(side)
    )


def list_needed(side: str) -> Iterator[str]:
    """The parts of a side that its stations cannot do without."""
    attentions = ("self_attention",) if side == "encoder" else ("self_attention", "cross_attention")
    yield from (f"{side}.embedding.{part}" for part in ("words", "positions", "add"))
    yield from (f"{side}.layers.0.feed_forward.{part}" for part in ("expand", "contract"))
    for attention in attentions:
        yield from (f"{side}.layers.0.{attention}.{part}" for part in ATTENTION_PARTS)
        yield from (f"{side}.layers.0.{attention}_{part}" for part in ("add", "norm"))
    yield from ["src_mask"] if side == "encoder" else ["tgt_mask.combine", "head"]


def quote(words: Sequence[str]) -> str:
    """Words in quotation marks, with the middle left out where there are very many."""
    if len(words) > MANY_WORDS:
        words = [*words[: MANY_WORDS // 2], "…", *words[-MANY_WORDS // 2 :]]
    return f"“{' '.join(words)}”"


def plain(text: Text) -> str:
    """A text as it is read aloud, shapes written with ×."""
    return "".join(part if isinstance(part, str) else name_sizes(part) for part in text)


def name_sizes(record: TensorRecord) -> str:
    """A shape as 8×4×10×8."""
    return "×".join(map(str, record.shape)) or "one number"


Side = Literal["encoder", "decoder"]
