"""The masks of a pass: those that the model was given, and those that it makes of its ids or of lengths."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.remembering import once
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass
from xray.story.alarms.bench import read_preview
from xray.story.recognition.values.mask_cells import read_cells
from xray.story.recognition.values.value_shapes import Values, number

ENDINGS = (
    "attention_mask",
    "attn_mask",
    "padding_mask",
    "pad_mask",
    "key_mask",
    "src_mask",
    "tgt_mask",
    "memory_mask",
    "context_mask",
    "encoder_mask",
    "source_mask",
    "target_mask",
    "seq_mask",
    "causal_mask",
)
EXACT = ("mask", "masks")
OTHERS = ("pixel", "head_", "global", "loss", "label", "perm")
"""Masks with these words in their names do other things than to hide keys."""


@dataclass(frozen=True)
class Mask:
    """A mask at its beginning: an argument of the model by its name, or the steps that ask which ids are padding.

    `keep` is the value of a key that may be read, where its meaning is certain; `values` are what was given.
    """

    name: str
    shape: tuple[int, ...]
    readers: tuple[int, ...]
    places: tuple[int, ...] = ()
    keep: float | None = None
    values: Values | None = None
    location: str | None = None

    @property
    def is_for_keys(self) -> bool:
        """Whether it has a value for each place of each sequence."""
        return len(self.shape) == 2

    @property
    def label(self) -> str:
        """Its name and shape."""
        return f"{self.name} {self.shape}"


@once
def list_masks(flow: Flow) -> tuple[Mask, ...]:
    """The masks that a pass begins with."""
    asked: dict[tuple[str, tuple[int, ...]], Mask] = {}
    for one in asked_masks(flow):
        key = (one.name, one.shape)
        places = (*(asked[key].places if key in asked else ()), *one.places)
        asked[key] = replace(asked.get(key, one), places=places, readers=places)
    return (*given_masks(flow), *asked.values())


def is_mask_name(name: str) -> bool:
    """Whether an argument of this name says which keys may be read."""
    return (name in EXACT or name.endswith(ENDINGS)) and not any(word in name for word in OTHERS)


def list_given(one_pass: Pass) -> dict[str, TensorRecord]:
    """What the whole model was given that says who may see whom, by name."""
    found: dict[str, TensorRecord] = {}
    for step in one_pass.steps:
        for record in step.inputs:
            if record.given is not None and (record.given not in found or record.preview is not None):
                found[record.given] = record
    return found


@once
def given_values(flow: Flow) -> dict[str, Values]:
    """The values of what the whole model was given, as far as they were kept."""
    found: dict[str, Values] = {}
    for name, record in list_given(flow.one_pass).items():
        values = read_preview(record)
        values = read_cells(record) if values is None else values
        if values is not None:
            found[name] = values
    return found


def given_masks(flow: Flow, named: Callable[[str], bool] = is_mask_name) -> Iterator[Mask]:
    """The arguments of the whole model with more than one axis that have the name of a mask, and only hide."""
    values = given_values(flow)
    for name, record in list_given(flow.one_pass).items():
        weighs = record.mask is not None and record.mask.weighs
        if named(name) and len(record.shape) > 1 and not weighs:
            readers = tuple(
                place
                for place in range(len(flow.steps))
                if flow.is_leaf(place) and any(one.given == name for one, maker in flow.given(place) if maker is None)
            )
            yield Mask(name, record.shape, readers, values=values.get(name))


def asked_masks(flow: Flow) -> Iterator[Mask]:
    """Where ids are compared with one id, or places with the lengths of the sequences."""
    for place, step in enumerate(flow.steps):
        if step.op not in ("eq", "ne", "lt", "ge", "gt", "le") or not flow.is_leaf(place) or not step.outputs:
            continue
        shape = step.outputs[0].shape
        if len(shape) != 2 or shape[-1] < 2 or step.outputs[0].source != step.id:
            continue
        if step.op in ("eq", "ne") and len(step.inputs) == 1 and number(step) is not None:
            record, maker = next(flow.given(place))
            is_open = maker is None and record.given is None and record.role == "ids" and record.shape == shape
            if is_open and shape not in list_type_shapes(flow.one_pass):
                sign = "==" if step.op == "eq" else "!="
                name = f"{record.name if record.name != 'input' else 'ids'} {sign} {number(step):g}"
                yield Mask(name, shape, (place,), (place,), 0.0 if step.op == "eq" else 1.0, location=step.location)
        elif len(step.inputs) == 2:
            sides = [side_of(flow, record, maker) for record, maker in flow.given(place)]
            if sorted(map(str, sides)) == ["lengths", "places"]:
                shows = {"lt": ("places", "lengths"), "gt": ("lengths", "places")}
                hides = {"ge": ("places", "lengths"), "le": ("lengths", "places")}
                keep = (
                    1.0 if shows.get(step.op) == tuple(sides) else 0.0 if hides.get(step.op) == tuple(sides) else None
                )
                if keep is not None:
                    yield Mask("places beside lengths", shape, (place,), (place,), keep, location=step.location)


def asks_for_padding(flow: Flow, mask: Mask) -> bool:
    """Whether what is compared are lengths, or ids with 0 or the one of which a table learns no row.

    Any other id may be that of a word with a task of its own.
    """
    step = flow.steps[mask.places[0]]
    return len(step.inputs) > 1 or number(step) in (0, *(one.settings.get("padding_idx") for one in flow.steps))


@once
def list_type_shapes(one_pass: Pass) -> frozenset[tuple[int, ...]]:
    """The shapes of token types: ids of that shape that are asked for a number need not be words."""
    names = ("type_ids", "segment_ids")
    given = (record for step in one_pass.steps for record in step.inputs if record.name.endswith(names))
    return frozenset(record.shape for record in given)


def side_of(flow: Flow, record: TensorRecord, maker: int | None) -> str | None:
    """Whether one side of a comparison are places that were counted out, or lengths that were given."""
    while maker is not None and flow.op(maker) in CARRYING | {"index"} and len(flow.makers[maker]) == 1:
        record, maker = next(flow.given(maker))
    if maker is not None:
        return "places" if flow.op(maker) == "arange" else None
    return "lengths" if record.given is not None and "len" in record.given and len(record.shape) == 1 else None


def hides_nothing(mask: Mask) -> bool:
    """Whether a mask is known to be the same everywhere, so that it cannot tell keys apart."""
    return mask.values is not None and bool((mask.values == mask.values.flat[0]).all() if mask.values.size else True)


def all_of(mask: Mask, value: float) -> Values:
    """The mask with one value everywhere."""
    return np.full(mask.shape, value)
