"""The waist of X-Ray: what was recorded, as frozen facts that need no torch to be read."""

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from xray.ir.records import TensorRecord

PassKind = Literal["training", "encode", "decode", "forward"]
SCHEMA = 1
"""The version of the trace's form; a reader refuses a newer one."""

Setting = str | int | float | bool | None
"""A plain value; numbers that JSON cannot write are the words "nan", "inf" and "-inf"."""

SMALL_COPY, CUTS, WHOLE_PARAMS = "small_copy", "cuts", "params_of_whole"
"""The entries of a trace's config that say that fewer layers were run than the model has, what there was fewer of, as
"num_layers 1 of 28, num_experts 8 of 512", and how many parameters the whole model has."""
MADE_PARAMS = "made_params"
"""The setting of a step by a module that the model does not hold, as one made while it ran: how many parameters that
has that the model does not hold either."""
IN_PLACE_OF = "in_place_of"
"""The setting of a step by a module that took another one's place while the model ran: the class of that one."""


@dataclass(frozen=True)
class Step:
    """One call of one module or operation.

    `id` is the path and the call's number within the pass, "decoder.layers.0.cross_attention.scores#0". `op` says what
    it does in one word ("linear", "matmul", "softmax", "add"), `module` is the class that did it, `settings` are its
    plain attributes (a dropout's p, a softmax's dim). `params` counts the parameters of the module and all inside it,
    shared ones once, and `trained` those of them that require a gradient; None where there are none, or it was not
    noted. A step that others name as their parent is a block; the others are leaves. `weights` are the parameters that
    the module of a leaf holds itself, by the names that torch has for them, a shared one by its first, each with how
    many numbers it holds. `error` is the exception's text if the call did not return.
    """

    id: str
    path: str
    call: int
    op: str
    module: str
    parent: str | None
    depth: int
    layer: int | None
    params: int
    location: str | None
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    error: str | None = None
    trained: int | None = None
    weights: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_given_weights(self) -> bool:
        """Whether it is given parameters, as a function is."""
        return any(record.role == "parameter" for record in self.inputs)

    @property
    def is_learned(self) -> bool:
        """Whether it works with parameters: those of its module, or such as it is given."""
        return bool(self.params) or self.is_given_weights

    def __repr__(self) -> str:
        took, made = ([record.shape for record in records] for records in (self.inputs, self.outputs))
        return f"Step({self.id!r}, {self.op!r}, {took} -> {made if self.error is None else 'failed'})"


def name_weights(step: Step) -> str:
    """By what the weights of a step are known: the name of the first; its path, where they have none."""
    given = (record.weight for record in step.inputs if record.weight is not None)
    return next(iter(step.weights), None) or next(given, step.path)


@dataclass(frozen=True)
class Pass:
    """One forward pass: its steps in the order in which they began, blocks before what is inside them.

    `tokens` holds the words that went in and came out, by name, a row of words for each sequence: "src", "tgt",
    "decoder_input" and "targets" in a training pass; "src" in an encode pass; "decoder_input" and "new" in a decode
    pass. In a forward pass of a model that answers by its own tokenizer, "input" are the pieces that it read and "new"
    the one that was chosen next, as they are spelt, blanks included.
    """

    kind: PassKind
    number: int
    tokens: Mapping[str, tuple[tuple[str, ...], ...]]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        number = f", {self.number}" if self.number else ""
        return f"Pass({self.kind!r}{number}, {count(self.steps, 'step', 'steps')})"

    @property
    def key(self) -> str:
        """What the pass is called in ids: its kind, and its number where it has one, as in "decode3"."""
        return f"{self.kind}{self.number or ''}"

    @cached_property
    def blocks(self) -> frozenset[str]:
        """The ids of the steps that hold other steps."""
        return frozenset(step.parent for step in self.steps if step.parent is not None)

    @property
    def leaves(self) -> tuple[Step, ...]:
        """The steps that hold no other step, in order."""
        return tuple(step for step in self.steps if step.id not in self.blocks)

    @cached_property
    def by_id(self) -> Mapping[str, Step]:
        """Each step by its id."""
        return {step.id: step for step in self.steps}

    @cached_property
    def arguments(self) -> tuple[TensorRecord, ...]:
        """What was given to what ran: the tensors that its outermost steps take."""
        return tuple(record for step in self.steps if step.parent is None for record in step.inputs)

    @cached_property
    def results(self) -> frozenset[str]:
        """The ids of the steps whose results were handed out: by the outermost steps."""
        made = (record.source for step in self.steps if step.parent is None for record in step.outputs)
        return frozenset(source for source in made if source is not None)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The size of every axis word that occurs in this pass; the first size seen where a word has several."""
        found: dict[str, int] = {}
        for step in self.steps:
            for record in (*step.inputs, *step.outputs):
                for axis, size in record.sizes.items():
                    found.setdefault(axis, size)
        return found


@dataclass(frozen=True)
class Trace:
    """Everything recorded of one or more passes through a model.

    `sizes` are the model's named sizes (batch, heads, d_model, d_k, d_ff, src_vocab, tgt_vocab, encoder_layers,
    decoder_layers, src_len, tgt_len); `config` is what it was built and traced with. `unused` tells what took no part:
    outermost modules with parameters that no step worked with, by their paths, and single parameters by their names,
    each with how many it holds; None where that is not known of all.
    """

    title: str
    sizes: Mapping[str, int]
    config: Mapping[str, Setting]
    passes: tuple[Pass, ...]
    unused: Mapping[str, int] | None = None
    schema: int = SCHEMA

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all passes, one after the other."""
        return tuple(step for one_pass in self.passes for step in one_pass.steps)

    def __repr__(self) -> str:
        return f"Trace({self.title!r}, {count(self.passes, 'pass', 'passes')}, {count(self.steps, 'step', 'steps')})"

    def passes_of(self, *kinds: PassKind) -> tuple[Pass, ...]:
        """The passes of the given kinds, in order."""
        return tuple(one_pass for one_pass in self.passes if one_pass.kind in kinds)


def count(things: Sized, one: str, many: str) -> str:
    """How many there are, in words."""
    return f"{len(things):,} {one if len(things) == 1 else many}"
