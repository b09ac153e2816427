"""A recording while it is being made: open passes, open steps, tensors as they were seen.

What is noted in passing is as little as can be; names, numbers and records are made when the recording is read.
"""

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from xray.capture.masks.facts import SeenMask
from xray.capture.parts import Part
from xray.ir.records import Preview, Role
from xray.ir.trace import PassKind, Setting

STATE_NAMES = ("cache", "past_key", "layer_past")
"""Arguments with these names carry what a model keeps from one call to the next."""


class Known(NamedTuple):
    """What was noted of a tensor; it is kept alive by nobody here.

    `dtype` is a text where it says more than torch's own type does. `maker` is the serial number of the call that made
    the tensor, None for what came from outside. `given` is the name under which the whole model was given it, where
    that says who may see whom. `part` is of a tensor that several ranks hold, `trained` of a parameter: whether it
    requires a gradient. `weight` is the name of the parameter that it is.
    """

    tensor: "weakref.ref[Tensor]"
    version: int
    shape: tuple[int, ...]
    dtype: torch.dtype | str
    device: torch.device | str
    role: Role
    maker: int | None
    mask: SeenMask | None
    given: str | None = None
    part: Part | None = None
    trained: bool | None = None
    weight: str | None = None


Weights = tuple[tuple[int, int], ...]
"""Parameters by their identity, each with its size."""
Sizes = Mapping[str, int]
"""Parameters by the names that torch has for them, a shared one by its first, each with its size."""
NOWHERE = weakref.ref(Tensor())
"""In place of a tensor that was never stored."""
Seen = tuple[str, Known, Preview | None]
"""A tensor as a call saw it: its name there, what is known of it, a few values where they were asked for."""


class Pattern(NamedTuple):
    """What stands between the brackets of `x[:, -1]`."""

    parts: tuple[Any, ...]

    def __str__(self) -> str:
        return ", ".join(map(spell_part, self.parts))


def spell_part(part: Any) -> str:
    if not isinstance(part, slice):
        return "..." if part is Ellipsis else str(part)
    ends = [part.start, part.stop] if part.step is None else [part.start, part.stop, part.step]
    return ":".join("" if end is None else str(end) for end in ends)


class OpenCall:
    """A step whose call has begun; the module and its arguments are held only until it ends.

    Calls know each other upwards only, and tensors by number, so that a recording leaves nothing in circles.
    """

    __slots__ = (
        "arguments",
        "block",
        "error",
        "handed_on",
        "inputs",
        "kind",
        "line",
        "module",
        "number",
        "op",
        "options",
        "outputs",
        "params",
        "parent",
        "path",
        "serial",
        "settings",
        "weighed",
        "weights",
    )

    def __init__(
        self,
        serial: int,
        path: str,
        op: str,
        parent: "OpenCall | None",
        line: tuple[CodeType, int] | None,
        block: "OpenCall | None" = None,
    ) -> None:
        self.serial = serial
        self.path = path
        self.op = op
        self.parent = parent
        self.line = line
        self.kind = ""
        self.params: int | Counted = 0
        self.weights: Sizes = NO_WEIGHTS
        self.weighed: Preview | None = None
        self.settings: Mapping[str, Setting] = NO_SETTINGS
        self.options: Iterable[tuple[str, Any]] = ()
        self.inputs: list[Seen] = []
        self.outputs: list[Seen] = []
        self.error: str | None = None
        self.module: nn.Module | None = None
        self.arguments: tuple[Any, ...] | None = None
        self.block = block
        self.number = 0
        self.handed_on: OpenCall | None = None  # what a plain layer's result went through before it came out

    @property
    def id(self) -> str:
        """The path and the number of the call; a derived step has the number of the call that it is derived from."""
        return f"{self.path}#{self.number if self.block is None else self.block.number}"

    def release(self) -> None:
        """Let go of the module and the arguments."""
        self.module = self.arguments = None


NO_SETTINGS: Mapping[str, Setting] = {}
NO_WEIGHTS: Sizes = {}


class Counted:
    """The parameters of a module and all inside it, shared ones once; `own` are those that it holds itself.

    `names` are what these are called there, `weights` in the whole, a shared one as the first; `above` is the module
    around it. `trained` counts those that require a gradient. `parts` tells of those that several ranks hold how they
    are divided, and this rank's part: "weight_placement", "weight_local", "weight_shape" of the whole, "weight_begin"
    and, where they are uneven, the "weight_parts" of all.
    """

    __slots__ = ("above", "names", "own", "params", "parts", "path", "trained", "weights")

    def __init__(
        self,
        path: str,
        params: int,
        own: Weights = (),
        trained: int = 0,
        names: tuple[str, ...] = (),
        weights: Sizes = NO_WEIGHTS,
        above: "Counted | None" = None,
    ) -> None:
        self.path = path
        self.names = names
        self.weights = weights
        self.above = above
        self.params = params
        self.trained = trained
        self.own = own
        self.parts: Mapping[str, Setting] = NO_SETTINGS

    @property
    def told_trained(self) -> int | None:
        """How many of them require a gradient; None where there are none."""
        return self.trained if self.params else None


def describe_error(error: BaseException | None) -> str:
    """An exception's type and text."""
    return "did not return" if error is None else f"{type(error).__name__}: {error}"


@dataclass
class OpenPass:
    """A pass still being recorded."""

    kind: PassKind
    number: int
    tokens: Mapping[str, tuple[tuple[str, ...], ...]]
    calls: list[OpenCall] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The kind and number: "decode3"."""
        return f"{self.kind}{self.number or ''}"

    def number_calls(self) -> None:
        """Count the calls of each path, in the order in which they began."""
        counts: dict[str, int] = {}
        for call in self.calls:
            call.number = counts.get(call.path, 0)
            counts[call.path] = call.number + 1
