"""Axis words that a role settles: scores are queries by keys whatever their sizes, and the way back tells the rest.

From the scores the axes are followed back through views and turns to the projections and to the stream: the piece that
stands beside d_k where both are one axis is heads, the other one is batch. Sizes play no part but in cutting a view.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.families import Sides
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.site_words import SiteWords, Words, read_words
from xray.story.recognition.stacks import Stack

Layout = tuple[Words, tuple[int, ...]]
"""The words and sizes of all axes of a stream but its last."""


WIDE = ("expand", "activation", "gate", "multiply", "dropout")


def name_retold_axes(told: Retold, sides: Sides, earlier: Mapping[str, Words]) -> list[Step]:
    """The steps with the words that their parts settle; where nothing is settled the recording's words stay.

    `earlier` are the words of what steps of earlier passes made.
    """
    words: dict[str, Words] = {}
    layouts: dict[str, Layout] = {}
    inside: dict[str, list[Step]] = {}
    for step in told.steps:
        parts = step.path.split(".")
        if len(parts) > 4:
            inside.setdefault(".".join(parts[:4]), []).append(step)
    for side, stack in (("encoder", sides.encoder), ("decoder", sides.decoder)):
        if stack is not None:
            for number, name, site in numbered_sites(stack):
                found = read_words(told.flow, site, side)
                if found is not None:
                    path = f"{side}.layers.{number}.{name}"
                    words |= name_site(told, inside.get(path, ()), found)
                    layouts.setdefault(side, (found.stream, found.sizes))
    for step in told.steps:
        if step.id not in words:
            named = name_stream(step, layouts)
            if named is not None:
                words[step.id] = named
    masks = name_masks(told.steps, words)
    width = next(
        (step.outputs[0].shape[-1] for step in told.steps if step.path.endswith("_add") and step.outputs), None
    )
    return [write_words(step, words, layouts, masks, earlier, width) for step in told.steps]


def numbered_sites(stack: Stack) -> list[tuple[int, str, Site]]:
    """The attentions of a stack, each with its layer's number and its name."""
    return [
        (number, one.kind, one.part)
        for number, layer in enumerate(stack.layers)
        for one in layer
        if isinstance(one.part, Site)
    ]


def name_site(told: Retold, steps: Sequence[Step], found: SiteWords) -> dict[str, Words]:
    """The words of what each step of an attention made."""
    words: dict[str, Words] = {}
    for step in steps:
        nodes = told.nodes.get(step.id, ())
        if not nodes or not step.outputs:
            continue
        rank = len(step.outputs[0].shape)
        if nodes[-1] in found.made and len(found.made[nodes[-1]]) == rank:
            words[step.id] = found.made[nodes[-1]]
    return words


def name_stream(step: Step, layouts: Mapping[str, Layout]) -> Words | None:
    """The words of what a step on the stream, or beside it, made."""
    side = "decoder" if step.path == "head" and "decoder" in layouts else step.path.split(".")[0]
    side = "encoder" if step.path == "head" and side == "head" else side
    if side not in layouts or not step.outputs:
        return None
    stream, sizes = layouts[side]
    shape = step.outputs[0].shape
    if step.path.endswith("embedding.positions") and len(shape) == len(stream) + 1:
        stream = tuple(
            "1" if size == 1 and size != whole_ else word
            for word, size, whole_ in zip(stream, shape, sizes, strict=False)
        )
        sizes = tuple(whole_ if word != "1" else 1 for word, whole_ in zip(stream, sizes, strict=True))
    if shape[:-1] != sizes or len(shape) != len(stream) + 1:
        return None
    name = step.path.rsplit(".", 1)[-1]
    parts = step.path.split(".")
    if step.path == "head":
        return (*stream, "tgt_vocab" if side == "decoder" else step.outputs[0].axes[-1])
    if len(parts) == 5 and parts[3] == "feed_forward" and name in WIDE:
        return (*stream, "d_ff")
    if len(parts) == 5 and name in ("query", "key", "value"):
        return None
    return (*stream, "d_model")


def write_words(
    step: Step,
    words: Mapping[str, Words],
    layouts: Mapping[str, Layout],
    masks: Mapping[str, Words],
    earlier: Mapping[str, Words],
    width: int | None,
) -> Step:
    """The step with the words of its own outputs, and those of what it reads."""
    stream, sizes = layouts.get(step.path.split(".")[0], ((), ()))
    is_entry = ".embedding" in step.path or step.path in ("encoder", "decoder")

    def settle(record: TensorRecord, named: Words | None) -> TensorRecord:
        if named is None and is_entry and record.role == "ids" and record.shape == sizes:
            named = stream
        if named is None or len(named) != len(record.shape):
            named = record.axes
        axes = tuple(word or old for word, old in zip(named, record.axes, strict=True))
        if axes and axes[-1] == "heads*d_k" and record.shape[-1] == width:
            axes = (*axes[:-1], "d_model")
        if "decoder" in layouts:
            axes = tuple("tgt_vocab" if word == "vocab" else word for word in axes)
        return record if axes == record.axes else replace(record, axes=axes)

    own = words.get(step.id) or masks.get(step.id)
    outputs = tuple(settle(record, own or words.get(record.source or "")) for record in step.outputs)
    inputs = []
    for record in step.inputs:
        named = words.get(record.source or "")
        if named is None:
            named = fill(record, earlier.get(record.source or "", ()))
        if record.name in ("mask", "bias", "self_mask", "cross_mask"):
            named = masks.get(f"{step.id} {record.name}") or masks.get(record.source or "") or named
        if record.name == "past":
            made = outputs[0].axes if outputs else ()
            named = tuple("tgt_len-1" if word == "tgt_len" and one_more(record, step) else word for word in made)
        inputs.append(settle(record, named))
    return replace(step, inputs=tuple(inputs), outputs=outputs)


def fill(record: TensorRecord, named: Words) -> Words | None:
    """The recording's words, and for axes without one those that an earlier pass gave."""
    if len(named) != len(record.axes):
        return None
    return tuple(old or word for old, word in zip(record.axes, named, strict=True))


def one_more(past: TensorRecord, step: Step) -> bool:
    """Whether a cache grew by one place."""
    after = step.outputs[0].shape
    return len(after) == len(past.shape) and sum(after) - sum(past.shape) == 1


def name_masks(steps: Sequence[Step], words: Mapping[str, Words]) -> dict[str, Words]:
    """The words of masks and biases, which are laid over the scores from the right; by their makers and readers."""
    found: dict[str, Words] = {}
    for step in steps:
        scores = words.get(step.id)
        for record in step.inputs:
            if scores is None or record.name not in ("mask", "bias") or len(record.shape) > len(scores):
                continue
            over = list(
                zip(
                    record.shape, step.outputs[0].shape[-len(record.shape) :], scores[-len(record.shape) :], strict=True
                )
            )
            named = tuple(
                word if size == whole_ and size > 1 else "1" if size == 1 < whole_ else ""
                for size, whole_, word in over
            )
            found[f"{step.id} {record.name}"] = named
            if record.source is not None:
                found.setdefault(record.source, named)
    return found
