"""Operations that failed since their numbers are of different types, or not of the one they take, or elsewhere."""

import re
from collections.abc import Sequence
from dataclasses import replace

from xray.ir.trace import Step
from xray.story.failure.operands import Misfit, Operand

ABOUT_TYPES = re.compile(
    r"dtype|scalar types?|[Ii]nput type|Float and |Long and |Half|BFloat16|boolean masks|only bool and floating"
)
ABOUT_DEVICES = re.compile(r"same device|expected device|on device")
LOOKING_UP = ("embedding", "embedding_bag", "index_select", "gather", "scatter", "take_along_dim")
"""Operations that take whole numbers, to find rows or places by."""


def check_types(step: Step, operands: Sequence[Operand]) -> Misfit | None:
    """Types that do not go together, where that is what was raised."""
    if not ABOUT_TYPES.search(step.error or "") or not step.inputs:
        return None
    types = [record.dtype for record in step.inputs]
    op = step.op.strip("_")
    if op in LOOKING_UP:
        wrong = [at for at, kind in enumerate(types) if is_float(kind) and (op == "embedding") is (at == 0)]
        rule = "ids have to be whole numbers, of type int64: {} here. Make them so with .long()"
        return tell(operands, types, wrong[:1], rule)
    if op == "masked_fill":
        wrong = [at for at, kind in enumerate(types) if at == 1 and kind != "bool"]
        return tell(operands, types, wrong, "a mask of what to fill has to be of type bool: {} here. Write mask == 0")
    masks = [at for at, record in enumerate(step.inputs) if "mask" in record.name]
    wrong = [at for at in masks if types[at] != "bool" and not is_float(types[at])]
    rule = "a mask has to be of type bool, or of floats that are added: {} here. Make it so with .bool()"
    return tell(operands, types, wrong, rule) or check_alike(step, operands, types)


def check_alike(step: Step, operands: Sequence[Operand], types: Sequence[str]) -> Misfit | None:
    """Operands, and the weights of a layer, of one type."""
    told, kinds = [*operands], [*types]
    if step.params and not any(operand.name == "weight" for operand in operands):
        told.append(Operand("weights", ()))
        kinds.append(str(step.settings.get("weight_dtype", "float32")))
    both = [kind for kind in dict.fromkeys(kinds) if kind != "bool"]
    if len(both) < 2:
        return None
    rule = f"all have to be of one type: {' and '.join(both)}. "
    rule += (
        "Ids go through an embedding; other whole numbers need .float()"
        if any(not is_float(kind) for kind in both)
        else "Convert one of them, as in x.to(other.dtype), or run the model under torch.autocast"
    )
    return Misfit(tuple(replace(one, type=kind) for one, kind in zip(told, kinds, strict=True) if kind != "bool"), rule)


def check_devices(step: Step, operands: Sequence[Operand]) -> Misfit | None:
    """Operands that are not all in one place, where that is what was raised."""
    places = list(dict.fromkeys(record.device for record in step.inputs))
    if not ABOUT_DEVICES.search(step.error or "") or not step.inputs:
        return None
    if len(places) < 2:
        rule = f"the model has to be where its inputs are, on {places[0]}. Move it, as in model.to('{places[0]}')"
        return Misfit(tuple(operands), rule)
    rule = f"all have to be in one place: {' and '.join(places)}. Move them there, as in x.to('{places[0]}')"
    return Misfit(tuple(replace(one, type=at.device) for one, at in zip(operands, step.inputs, strict=True)), rule)


def tell(operands: Sequence[Operand], types: Sequence[str], wrong: Sequence[int], rule: str) -> Misfit | None:
    if not wrong:
        return None
    marked = tuple(replace(one, type=types[at]) if at in wrong else one for at, one in enumerate(operands))
    return Misfit(marked, rule.format(types[wrong[0]]))


def is_float(kind: str) -> bool:
    return "float" in kind
