"""How operations move, cut, repeat and fill numbers that are known."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from xray.ir.trace import Setting, Step
from xray.ir.turns import read_turn

Values = NDArray[np.float64]


def number(step: Step, *names: str) -> float | None:
    """The first setting of some names that is a number, as one; of the one called "other", where none is named."""
    values = (step.settings.get(name) for name in names or ("other",))
    found = (value for value in values if isinstance(value, int | float | bool) or value in ("inf", "-inf"))
    return next(map(float, found), None)


def numbers(step: Step, name: str) -> tuple[int, ...]:
    """A setting of whole numbers, one or several, such as "0x2x-1"; none where it is no such thing."""
    parts = str(step.settings.get(name, "")).split("x")
    return tuple(map(int, parts)) if all(part.removeprefix("-").isdecimal() for part in parts) else ()


def reshape(step: Step, given: list[Values]) -> Values:
    return given[0].reshape(step.outputs[0].shape)


def transpose(step: Step, given: list[Values]) -> Values | None:
    """Axes in another order."""
    turned = read_turn(step)
    return np.transpose(given[0], turned) if turned is not None and len(turned) == given[0].ndim else None


def spread(step: Step, given: list[Values]) -> Values:
    """`expand`."""
    shape = step.outputs[0].shape
    return np.broadcast_to(given[0].reshape((1,) * (len(shape) - given[0].ndim) + given[0].shape), shape)


def repeat(step: Step, given: list[Values]) -> Values:
    shape = step.outputs[0].shape
    source = given[0].reshape((1,) * (len(shape) - given[0].ndim) + given[0].shape)
    return np.tile(source, [after // before for before, after in zip(source.shape, shape, strict=True)])


def pick(step: Step, given: list[Values]) -> Values | None:
    """Indexing by what is written there, or by whole numbers that are known."""
    if len(given) > 1:
        found = pick_by_numbers(step, given)
        if found is not None:
            return found
        same = given[0].size and (given[0] == given[0].flat[0]).all()
        return np.full(step.outputs[0].shape, given[0].flat[0]) if same else None  # wherever it is picked
    if "index" not in step.settings and step.outputs[0].shape == (1, *given[0].shape):
        return given[0][None]  # by None alone, which is no setting
    index = read_index(step.settings)
    return None if index is None or len(given) != 1 else given[0][index]  # type: ignore[index]  # slices and numbers


def pick_by_numbers(step: Step, given: list[Values]) -> Values | None:
    """Indexing by one tensor for each of the first axes, as attention masks of libraries do."""
    indices = given[1:]
    if step.op != "index" or "index" in step.settings or any(record.dtype == "bool" for record in step.inputs[1:]):
        return None
    if len(indices) > given[0].ndim or any(np.isnan(one).any() for one in indices):
        return None
    found: Values = given[0][tuple(one.astype(int) for one in indices)]
    return found


def turn(step: Step, given: list[Values]) -> Values | None:
    """`flip`."""
    dim = number(step, "dims", "other")
    return None if dim is None else np.flip(given[0], int(dim))


def move_round(step: Step, given: list[Values]) -> Values | None:
    """`roll` by one number along one axis."""
    by = number(step, "shifts", "other")
    dim = number(step, "dims", "arg2")
    return None if by is None or dim is None else np.roll(given[0], int(by), int(dim))


def repeat_each(step: Step, given: list[Values]) -> Values | None:
    """`repeat_interleave` by one number; without an axis what is repeated is flat."""
    by = number(step, "repeats", "other")
    dim = number(step, "dim", "arg2")
    return None if by is None or len(given) > 1 else np.repeat(given[0], int(by), None if dim is None else int(dim))


def pile(step: Step, given: list[Values]) -> Values:
    """`stack`."""
    return np.stack(given, axis=int(number(step, "dim") or 0))


def put_in_blocks(step: Step, given: list[Values]) -> Values | None:
    """`block_diag`."""
    if any(one.ndim != 2 for one in given):
        return None
    found = np.zeros(step.outputs[0].shape)
    row = column = 0
    for one in given:
        found[row : row + one.shape[0], column : column + one.shape[1]] = one
        row, column = row + one.shape[0], column + one.shape[1]
    return found


def cut(step: Step, given: list[Values]) -> Values | None:
    """A part of a tensor in which all numbers are the same."""
    return np.full(step.outputs[0].shape, given[0].flat[0]) if (given[0] == given[0].flat[0]).all() else None


def put(step: Step, given: list[Values]) -> Values | None:
    """A number written into a part of a tensor."""
    index, value = read_index(step.settings), number(step, "values")
    if len(given) == 2 and value is not None and step.inputs[1].dtype == "bool" and given[1].shape == given[0].shape:
        return np.where(given[1] == 0, given[0], np.where(np.isnan(given[1]), np.nan, value))
    if len(given) > 1:
        index = read_named(step, given)
    elif index is None:
        return None
    if index is None or value is None:
        return None
    found = np.array(given[0])
    found[index] = value  # type: ignore[index]  # slices and numbers
    return found


def read_named(step: Step, given: list[Values]) -> tuple[object, ...] | None:
    """The places that rows of whole numbers name along some axes, all of the others; None where that is not known.

    Without a word of what stands around them, each axis has one.
    """
    whole, *places = given
    around = step.settings.get("around", ", ".join(["ids"] * whole.ndim))
    pieces = [piece.strip() for piece in str(around).split(",")]
    is_known = not any(np.isnan(one).any() for one in places) and not any(
        record.dtype == "bool" for record in step.inputs[1:]
    )
    if not is_known or pieces.count("ids") != len(places) or not {*pieces} <= {"ids", ":", "..."}:
        return None
    named = iter(places)
    others: dict[str, object] = {":": slice(None), "...": Ellipsis}
    return tuple(others[piece] if piece in others else next(named).astype(int) for piece in pieces)


def read_index(settings: Mapping[str, Setting]) -> tuple[object, ...] | None:
    """An index such as ":, None, 0:5, ..." as one that numpy takes."""
    text = settings.get("index")
    if not isinstance(text, str):
        return (int(text),) if isinstance(text, int) and not isinstance(text, bool) else None
    found: list[object] = []
    for piece in (one.strip() for one in text.split(",")):
        if piece == "None":
            found.append(None)
        elif piece == "...":
            found.append(Ellipsis)
        elif ":" in piece:
            bounds = [int(one) if one.strip() else None for one in piece.split(":")]
            found.append(slice(*bounds))
        else:
            found.append(int(piece))
    return tuple(found)


def read_slices(step: Step, axes: int) -> list[slice] | None:
    """Of which numbers along each axis an index is; None where it names places, or puts axes in."""
    index = read_index(step.settings)
    if index is None or index.count(Ellipsis) > 1:
        return None
    whole = [slice(None)] * (axes + index.count(Ellipsis) - len(index))
    place = index.index(Ellipsis) if Ellipsis in index else len(index)
    found = [*index[:place], *whole, *index[place + 1 :]]
    slices = [one for one in found if isinstance(one, slice)]
    return slices if len(slices) == len(found) == axes else None


def total(step: Step, given: list[Values]) -> Values | None:
    """`cumsum`."""
    dim = number(step, "dim", "other")
    return None if dim is None else np.cumsum(given[0], axis=int(dim))


def join(step: Step, given: list[Values]) -> Values:
    dim = number(step, "dim")
    return np.concatenate([one for one in given if one.size or one.ndim > 1], axis=int(dim or 0))
