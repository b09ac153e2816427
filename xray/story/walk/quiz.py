"""Which shape comes out? Questions about a run's own steps, checked and explained."""

import re
from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.walk.chapters import Text
from xray.story.walk.explanations import explain_step
from xray.story.walk.scene import Scene
from xray.story.walk.stations import station_of

ASKED = (
    "src_mask",
    "encoder.embedding.words",
    "encoder.layers.0.self_attention.split_query.view",
    "encoder.layers.0.self_attention.split_query.transpose",
    "encoder.layers.0.self_attention.transpose_key",
    "encoder.layers.0.self_attention.scores",
    "encoder.layers.0.self_attention.weighted_sum",
    "encoder.layers.0.self_attention.concat",
    "encoder.layers.0.feed_forward.expand",
    "shift",
    "tgt_mask.combine",
    "decoder.layers.0.self_attention.scores",
    "decoder.layers.0.cross_attention.split_key",
    "decoder.layers.0.cross_attention.scores",
    "decoder.layers.0.cross_attention.weighted_sum",
    "decoder.layers.0.feed_forward.contract",
    "head",
    "loss.flatten_logits",
    "next_word.last_row",
    "next_word.argmax",
    "append",
)
"""The steps worth asking about, in the order of the walk."""
SIGNS = re.compile(r"[×x,;*\s]+")


@dataclass(frozen=True)
class Question:
    """A step, what goes into it, and the shape that is asked for; `title` is that of its station."""

    station: int
    title: str
    step: Step
    prompt: Text
    answer: TensorRecord
    explanation: Text


def make_quiz(scene: Scene) -> tuple[Question, ...]:
    """The questions of a scene, those whose steps were recorded."""
    found = (scene.step(path) for path in ASKED)
    asked = [step for step in found if step is not None and step.outputs and step.inputs]
    places = [station_of(scene.question, step) or station_of(scene.answer, step) for step in asked]
    return tuple(
        ask(step, place.number if place else 0, place.title if place else "")
        for step, place in zip(asked, places, strict=True)
    )


def ask(step: Step, station: int, title: str) -> Question:
    """One step as a question."""
    told = explain_step(step)
    entries: list[str | TensorRecord] = []
    for record in step.inputs:
        entries += [f"{'; ' if entries else ''}{record.name} ", record, f" ({say_axes(record)})"]
    which = f"the shape of “{step.outputs[0].name}”" if len(step.outputs) > 1 else "the shape that comes out"
    rule = f" Rule: {told.formula}." if told.formula else ""
    out = step.outputs[0]
    return Question(
        station=station,
        title=title,
        step=step,
        prompt=(f"{step.path} reads ", *entries, f".{rule} What is {which}?"),
        answer=out,
        explanation=("It is ", out, f" ({say_axes(out)}). {told.change} {told.reason}"),
    )


def say_axes(record: TensorRecord) -> str:
    """The words of a tensor's axes."""
    return " × ".join(axis or "?" for axis in record.axes) or "a single number"


def list_hints(question: Question) -> tuple[Text, ...]:
    """What helps, each hint telling more than the one before: the axes of the answer, then all its sizes but one."""
    record = question.answer
    if not record.shape:
        return (("It is a single number: it has no axes.",),)
    count = "1 axis" if len(record.shape) == 1 else f"{len(record.shape)} axes"
    named = f": {say_axes(record)}" if any(record.axes) else ""
    told = "×".join(["?", *map(str, record.shape[1:])])
    return (f"It has {count}{named}.",), (f"All but the first: {told}.",)


def is_right(question: Question, answer: str) -> bool:
    """Whether an answer such as "8x4x10x8", "8 4 10 8" or "[8, 4, 10, 8]" is the shape."""
    return read_answer(answer) == question.answer.shape


def read_answer(answer: str) -> tuple[int, ...] | None:
    """The sizes in an answer; None where it holds something else."""
    parts = [part for part in SIGNS.split(answer.strip().lower().strip("()[]. ")) if part]
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        return None
    return tuple(int(part) for part in parts)
