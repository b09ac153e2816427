"""From what was noted in passing to the frozen trace: numbers, names and records, made once the recording is read."""

from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any, TypeVar

from xray.capture.calls import NOWHERE, STATE_NAMES, Counted, Known, OpenCall, OpenPass, Seen, Sizes
from xray.capture.kernels.fused import derive_attention
from xray.capture.kernels.native import open_kernels
from xray.capture.masks.facts import SeenMask
from xray.capture.masks.settling import settle_masks
from xray.capture.naming import PLAIN, make_plain, name_layer
from xray.ir.records import MaskFacts, Preview, TensorRecord
from xray.ir.trace import Pass, Setting, Step

SpellLine = Callable[[tuple[CodeType, int]], str]
Links = dict[int, list[tuple[str, str, int]]]
Fact = TypeVar("Fact")


def freeze_passes(passes: list[OpenPass], spell: SpellLine) -> tuple[tuple[Pass, ...], list[Links]]:
    """Everything so far, frozen, and for each pass where each tensor was seen.

    `spell` says where a line of code stands.
    """
    settled = settle_masks(call for one in passes for call in one.calls)
    masks = {identity: mask.to_facts() for identity, mask in settled.items()}
    makers: dict[int, tuple[OpenPass, str]] = {}
    outputs: dict[tuple[int, int], int] = {}
    freezers = [Freezer(one, spell, masks, makers, outputs) for one in passes]
    return tuple(open_kernels(one.freeze()) for one in freezers), [one.links for one in freezers]


class Freezer:
    """Makes the records of one pass; `makers` tells the pass and the id of each call by its number, up to this pass.

    `outputs` tells for each call that made several tensors, and each of these, which of them it is.
    """

    def __init__(
        self,
        one: OpenPass,
        spell: SpellLine,
        masks: dict[int, MaskFacts],
        makers: dict[int, tuple[OpenPass, str]],
        outputs: dict[tuple[int, int], int],
    ) -> None:
        self.one = one
        self.spell = spell
        self.masks = masks
        self.makers = makers
        self.outputs = outputs
        self.blocks = {call.parent.serial for call in one.calls if call.parent is not None}
        self.calls: list[OpenCall] = []
        self.ids: dict[int, str] = {}
        self.links: Links = {}
        self.depths: dict[int, int] = {}
        self.layers: dict[str, int | None] = {}
        one.number_calls()
        for call in one.calls:
            stages = derive_attention(call) if call.error is None and not call.kind else []
            self.calls += (call, *stages)
            for part in (call, *stages):
                self.ids[part.serial] = part.id
                makers[part.serial] = (one, part.id)
            if len(call.outputs) > 1 and not stages:
                self.number_outputs(call)
            if stages:  # what fused attention makes comes from the last of what is inside it
                makers[call.serial] = makers[stages[-1].serial]
        self.taken = frozenset(self.ids.values())
        self.arguments = name_arguments(one.calls)

    def number_outputs(self, call: OpenCall) -> None:
        """Note of each tensor that a call made which of them it is; what it only handed on is another's."""
        for number, (_, known, _) in enumerate(call.outputs):
            if known.maker == call.serial and known.tensor is not NOWHERE:
                self.outputs[call.serial, id(known.tensor)] = number

    def freeze(self) -> Pass:
        return Pass(self.one.kind, self.one.number, self.one.tokens, tuple(map(self.freeze_call, self.calls)))

    def freeze_call(self, call: OpenCall) -> Step:
        parent, path = call.parent, call.path
        depth = self.depths[call.serial] = 0 if parent is None else self.depths.get(parent.serial, -1) + 1
        if path not in self.layers:
            self.layers[path] = name_layer(path)
        return make_fact(
            Step,
            {
                "id": self.ids[call.serial],
                "path": path,
                "call": call.number if call.block is None else call.block.number,
                "op": call.op,
                "module": call.kind,
                "parent": None if parent is None else self.ids.get(parent.serial),
                "depth": depth,
                "layer": self.layers[path],
                "params": call.params if isinstance(call.params, int) else call.params.params,
                "location": None if call.line is None else self.spell(call.line),
                "inputs": self.freeze_tensors(call, "in", call.inputs),
                "outputs": self.freeze_tensors(call, "out", call.outputs),
                "settings": describe_options(call.settings, call.options) if call.options else call.settings,
                "error": call.error,
                "trained": None if isinstance(call.params, int) else call.params.told_trained,
                "weights": {} if call.serial in self.blocks else list_held(call),
            },
        )

    def freeze_tensors(self, call: OpenCall, side: str, tensors: Iterable[Seen]) -> tuple[TensorRecord, ...]:
        records: list[TensorRecord] = []
        for name, known, preview in tensors:
            record = self.freeze_tensor(name, known, preview, is_input=side == "in")
            if known.tensor is not NOWHERE and known.shape:
                place = (self.ids[call.serial], side, len(records))
                self.links.setdefault(id(known.tensor), []).append(place)
            records.append(record)
        return tuple(records)

    def freeze_tensor(self, name: str, known: Known, preview: Preview | None, *, is_input: bool) -> TensorRecord:
        shape = known.shape if type(known.shape) is tuple else tuple(map(int, known.shape))
        return make_fact(
            TensorRecord,
            {
                "name": name,
                "shape": shape,
                "axes": ("",) * len(shape),
                "dtype": str(known.dtype).removeprefix("torch."),
                "device": str(known.device),
                "role": "state" if is_input and name.startswith(STATE_NAMES) else known.role,
                "source": self.name_source(known),
                "mask": None if known.mask is None else self.freeze_mask(known.mask),
                "preview": preview,
                "given": known.given,
                "placement": None if known.part is None else known.part.placement,
                "local": None if known.part is None else known.part.local,
                "trained": known.trained,
                "weight": known.weight,
                "output": self.find_output(known) if is_input else None,
                "argument": self.arguments.get(id(known.tensor)) if is_input and known.maker is None else None,
            },
        )

    def find_output(self, known: Known) -> int | None:
        """Which of the tensors that a call made one is; None where it made but one."""
        return None if known.maker is None else self.outputs.get((known.maker, id(known.tensor)))

    def name_source(self, known: Known) -> str | None:
        """The id of the step that made a tensor; with the pass before it where this pass has a step of that id too."""
        if known.maker is None or known.maker not in self.makers:
            return None
        turn, name = self.makers[known.maker]
        return f"{turn.key}:{name}" if turn is not self.one and name in self.taken else name

    def freeze_mask(self, mask: SeenMask) -> MaskFacts:
        facts = self.masks.get(id(mask))
        if facts is None:
            facts = self.masks[id(mask)] = mask.to_facts()
        return facts


def name_arguments(calls: Iterable[OpenCall]) -> dict[int, str]:
    """What the outermost modules were given that no step made, by the identity of each tensor's reference.

    One that was given under several names has none: which of them a step reads, nothing tells.
    """
    outermost = (call for call in calls if call.parent is None and call.kind)
    found: dict[int, set[str]] = {}
    for call in outermost:
        for name, known, _ in call.inputs:
            if known.maker is None and known.tensor is not NOWHERE:
                found.setdefault(id(known.tensor), set()).add(name)
    return {tensor: next(iter(names)) for tensor, names in found.items() if len(names) == 1}


def list_held(call: OpenCall) -> Sizes:
    """The parameters that the module of a call holds itself, with their sizes."""
    return call.params.weights if isinstance(call.params, Counted) else call.weights


def make_fact(kind: type[Fact], fields: dict[str, Any]) -> Fact:
    """A frozen dataclass with all its fields given; its own constructor takes ten times as long."""
    made = object.__new__(kind)
    made.__dict__.update(fields)
    return made


def describe_options(settings: Mapping[str, Setting], options: Any) -> dict[str, Setting]:
    """The plain values among the arguments of an operation: a dim, a probability, a shape to view as."""
    described = dict(settings)
    for name, value in options:
        if isinstance(value, PLAIN):
            described[name] = make_plain(value)
        elif type(value) is tuple:
            described[name] = "x".join(map(str, value))
        else:
            described[name] = str(value).removeprefix("torch.")
    return described
