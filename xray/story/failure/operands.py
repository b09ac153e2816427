"""The tensors of a step that failed, as they are told: what of each does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xray.ir.records import TensorRecord
from xray.text import show_controls


@dataclass(frozen=True)
class Operand:
    """One tensor of a step with its shape; `wrong` are the places of the axes that do not fit.

    `type` is the type of its numbers, or where it is, if that does not fit.
    """

    name: str
    sizes: tuple[int, ...]
    axes: tuple[str, ...] = ()
    wrong: tuple[int, ...] = ()
    type: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether anything of it does not fit."""
        return bool(self.wrong or self.type)


@dataclass(frozen=True)
class Misfit:
    """The operands of a step that failed, and the rule that they break, "" where none is known."""

    operands: tuple[Operand, ...]
    rule: str = ""


def read_operand(record: TensorRecord) -> Operand:
    return Operand(show_controls(record.name), record.shape, record.axes)


def mark(operand: Operand, *places: int) -> Operand:
    """The operand with these axes marked; places may count from the end."""
    wrong = {place % len(operand.sizes) for place in places if -len(operand.sizes) <= place < len(operand.sizes)}
    return replace(operand, wrong=tuple(sorted({*operand.wrong, *wrong})))


def mark_differing(operand: Operand, wanted: Sequence[int]) -> Operand:
    """The operand with the axes marked that are not as wanted; all of them where there should be more or fewer."""
    if len(operand.sizes) != len(wanted):
        return mark(operand, *range(len(operand.sizes)))
    return mark(operand, *(at for at, pair in enumerate(zip(operand.sizes, wanted, strict=True)) if pair[0] != pair[1]))


def find(operands: Sequence[Operand], *names: str) -> Operand | None:
    """The first operand of one of these names."""
    return next((operand for operand in operands if operand.name in names), None)


def write(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes)) or "one number"


def describe_width(read: int, made_for: int) -> str:
    """The rule of a layer that reads another width than its weights are made for."""
    return f"the last axis has to be as wide as the layer reads: {read}, but the weights are for {made_for}"
