"""Axis words from what operations do: axes that must be the same are joined, and a group takes the word of any of them.

Addition joins the axes of its operands, a transpose joins them crosswise, a matrix product joins rows, columns and what
is between. Attention then tells which axis is heads and which d_k, normalisation and embeddings which is d_model, and
the words travel along the data to every other step. Sizes play no part, so equal sizes keep their own names.
"""

from collections.abc import Iterator
from dataclasses import replace

from xray.capture.fused import ATTENTIONS
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace

Axis = tuple[str, str, int, int]
"""An axis of a tensor at a step: the step's id, "in" or "out", which tensor, which axis."""

ELEMENTWISE = frozenset(
    {
        "add",
        "sub",
        "mul",
        "div",
        "add_",
        "sub_",
        "mul_",
        "div_",
        "relu",
        "relu_",
        "gelu",
        "silu",
        "tanh",
        "sigmoid",
        "softmax",
        "log_softmax",
        "dropout",
        "layer_norm",
        "rmsnorm",
        "rms_norm",
        "clone",
        "contiguous",
        "to",
        "float",
        "bfloat16",
        "half",
        "masked_fill",
        "masked_fill_",
        "scale",
        "mask_scores",
        "pow",
        "neg",
        "identity",
        "where",
        "exp",
        "layernorm",
        "type_as",
        "detach",
        "sqrt",
        "rsqrt",
        "square",
    }
)
ACTIVATIONS = frozenset({"relu", "gelu", "silu", "relu_", "new_gelu_activation", "gelu_activation", "tanh"})
NORMS = frozenset({"layer_norm", "rms_norm", "rmsnorm", "layernorm"})
HEADS_OF_WORDS = frozenset({"lm_head", "generator", "vocab_head", "output_projection", "to_logits"})


class Groups:
    """Axes that are the same one, joined in groups; each group may have a word, and keeps the first it was given."""

    def __init__(self) -> None:
        self._parents: dict[Axis, Axis] = {}
        self._words: dict[Axis, str] = {}

    def find(self, axis: Axis) -> Axis:
        """The axis that stands for the group."""
        root = axis
        while (above := self._parents.get(root, root)) != root:
            root = above
        while self._parents.get(axis, axis) != root:
            self._parents[axis], axis = root, self._parents.get(axis, axis)
        return root

    def join(self, one: Axis, other: Axis) -> None:
        """The two are the same, unless they already have different words."""
        first, second = self.find(one), self.find(other)
        if first == second:
            return
        if self._words.get(first) and self._words.get(second) and self._words[first] != self._words[second]:
            return
        self._parents[second] = first
        word = self._words.pop(second, None)
        if word is not None:
            self._words.setdefault(first, word)

    def name(self, axis: Axis, word: str) -> None:
        """Give the group of an axis its word, if it has none."""
        if word:
            self._words.setdefault(self.find(axis), word)

    def word(self, axis: Axis) -> str:
        """The word of an axis's group, or nothing."""
        return self._words.get(self.find(axis), "")


def name_axes_by_structure(trace: Trace) -> Trace:
    """The same trace: the words that its axes have spread along the data, and those that structure tells added."""
    return replace(trace, passes=tuple(name_pass(one) for one in trace.passes))


def name_pass(one_pass: Pass) -> Pass:
    groups = Groups()
    for step in one_pass.steps:
        for axis, record in axes_of(step):
            groups.name(axis, record.axes[axis[3]])
    for step in one_pass.steps:
        join_sources(step, one_pass, groups)
        join_step(step, groups)
    if any(step.op in ATTENTIONS or step.op == "softmax" for step in one_pass.steps):
        name_attention(one_pass, groups)
    steps = tuple(write_words(step, groups) for step in one_pass.steps)
    return replace(one_pass, steps=steps)


def axes_of(step: Step) -> Iterator[tuple[Axis, TensorRecord]]:
    for side, records in (("in", step.inputs), ("out", step.outputs)):
        for number, record in enumerate(records):
            for axis in range(len(record.shape)):
                yield (step.id, side, number, axis), record


def join_sources(step: Step, one_pass: Pass, groups: Groups) -> None:
    """What a step reads, or hands on, has the axes that it had where it was made."""
    for side, records in (("in", step.inputs), ("out", step.outputs)):
        for number, record in enumerate(records):
            maker = one_pass.by_id.get(record.source or "")
            if maker is None or maker is step:
                continue
            for place, made in enumerate(maker.outputs):
                if made.shape == record.shape:
                    for axis in range(len(record.shape)):
                        groups.join((maker.id, "out", place, axis), (step.id, side, number, axis))
                    break


def join_step(step: Step, groups: Groups) -> None:
    """Join the axes that the operation keeps."""
    if not step.outputs or not step.inputs:
        return
    out = step.outputs[0]
    if step.op in ELEMENTWISE:
        for number, record in enumerate(step.inputs):
            join_from_the_right(step, number, record, out, groups)
    elif step.op in ("transpose", "permute", "t") and not step.module:
        for axis, origin in enumerate(turned_axes(step)):
            groups.join((step.id, "in", 0, origin), (step.id, "out", 0, axis))
    elif step.op in ("linear", "embedding"):
        shared = min(len(step.inputs[0].shape) - (step.op == "linear"), len(out.shape) - 1)
        for axis in range(shared):
            groups.join((step.id, "in", 0, axis), (step.id, "out", 0, axis))
    elif step.op in ("matmul", "bmm") and len(step.inputs) > 1:
        join_product(step, groups)
    elif step.op == "unbind" and isinstance(dim := step.settings.get("dim", 0), int):
        for number, part in enumerate(step.outputs):
            for axis in range(len(part.shape)):
                origin = axis + (axis >= dim % len(step.inputs[0].shape))
                groups.join((step.id, "in", 0, origin), (step.id, "out", number, axis))
    elif step.op in ATTENTIONS and len(out.shape) == len(step.inputs[0].shape):
        for axis in range(len(out.shape) - 1):
            groups.join((step.id, "in", 0, axis), (step.id, "out", 0, axis))


def join_from_the_right(step: Step, number: int, record: TensorRecord, out: TensorRecord, groups: Groups) -> None:
    for back in range(1, min(len(record.shape), len(out.shape)) + 1):
        if record.shape[-back] == out.shape[-back]:
            inner = (step.id, "in", number, len(record.shape) - back)
            groups.join(inner, (step.id, "out", 0, len(out.shape) - back))


def turned_axes(step: Step) -> tuple[int, ...]:
    """For each axis of the output, the axis of the input that it was; nothing where the settings do not say."""
    rank = len(step.inputs[0].shape)
    order = list(range(rank))
    if step.op == "permute":
        dims = str(step.settings.get("dims", "")) or "x".join(
            str(value) for name, value in step.settings.items() if name.startswith(("arg", "other", "dim"))
        )
        parts = [part for part in dims.split("x") if part.lstrip("-").isdecimal()]
        return tuple(int(part) % rank for part in parts) if len(parts) == rank else ()
    if step.settings.get("derived") or not step.settings:
        first, second = rank - 2, rank - 1
    else:
        first, second = (step.settings.get(name) for name in ("dim0", "dim1"))  # type: ignore[assignment]
    if not isinstance(first, int) or not isinstance(second, int) or rank < 2:
        return ()
    order[first % rank], order[second % rank] = order[second % rank], order[first % rank]
    return tuple(order)


def join_product(step: Step, groups: Groups) -> None:
    left, right, out = step.inputs[0], step.inputs[1], step.outputs[0]
    ranks = (len(left.shape), len(right.shape), len(out.shape))
    if ranks[0] != ranks[2] or ranks[1] not in (2, ranks[2]) or ranks[2] < 2:
        return
    for axis in range(ranks[2] - 1):
        groups.join((step.id, "in", 0, axis), (step.id, "out", 0, axis))
    groups.join((step.id, "in", 1, ranks[1] - 1), (step.id, "out", 0, ranks[2] - 1))
    groups.join((step.id, "in", 0, ranks[0] - 1), (step.id, "in", 1, ranks[1] - 2))


def name_attention(one_pass: Pass, groups: Groups) -> None:
    """What attention, embeddings, normalisation and feed-forward say about the axes that no input size moves."""
    readers: dict[str, list[Step]] = {}
    for step in one_pass.steps:
        for record in step.inputs:
            if record.source is not None:
                readers.setdefault(record.source, []).append(step)
    for step in one_pass.steps:
        rank = len(step.outputs[0].shape) if step.outputs else 0
        if step.op in ATTENTIONS and rank == 4:
            for number in range(min(3, len(step.inputs))):
                groups.name((step.id, "in", number, 1), "heads")
                groups.name((step.id, "in", number, 3), "d_k")
            groups.name((step.id, "out", 0, 3), "d_k")
        elif step.op == "matmul" and rank == 4 and leads_to_softmax(step, readers):
            groups.name((step.id, "out", 0, 1), "heads")
            groups.name((step.id, "in", 0, 3), "d_k")
    for step in one_pass.steps:
        rank = len(step.outputs[0].shape) if step.outputs else 0
        if rank > 1 and (step.op in NORMS or (step.op == "embedding" and rank == 3)):
            groups.name((step.id, "out", 0, rank - 1), "d_model")
        elif step.op == "linear" and rank > 1:
            if step.path.rsplit(".", 1)[-1] in HEADS_OF_WORDS:
                groups.name((step.id, "out", 0, rank - 1), "vocab")
            elif any(reader.op in ACTIVATIONS for reader in readers.get(step.id, ())):
                groups.name((step.id, "out", 0, rank - 1), "d_ff")


def leads_to_softmax(step: Step, readers: dict[str, list[Step]], reach: int = 5) -> bool:
    """Whether a product is scores: softmax follows within a few steps that keep its shape."""
    for reader in readers.get(step.id, ()):
        if reader.op == "softmax":
            return True
        keeps = reader.outputs and reader.outputs[0].shape == step.outputs[0].shape
        if reach and keeps and reader.id != step.id and leads_to_softmax(reader, readers, reach - 1):
            return True
    return False


def write_words(step: Step, groups: Groups) -> Step:
    def named(side: str, records: tuple[TensorRecord, ...]) -> tuple[TensorRecord, ...]:
        return tuple(
            replace(record, axes=tuple(groups.word((step.id, side, number, axis)) for axis in range(len(record.shape))))
            for number, record in enumerate(records)
        )

    return replace(step, inputs=named("in", step.inputs), outputs=named("out", step.outputs))
