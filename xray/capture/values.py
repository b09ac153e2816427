"""The few values that a record may hold."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from xray.ir.powers import FEWEST_POWERS, LARGEST_EXPONENT, LEAST_BASE, read_base_of, round_off
from xray.ir.records import NON_FINITE, Number, Preview

MAX_VALUES = 16_384
"""The most values that one preview holds."""
MAX_WEIGHTS = 1 << 18
"""The most values of one attention that are kept where attention is what was asked for."""
MAX_CONSTANTS = 1 << 12
"""A longer row of constants is not looked through."""
OF_SINES = "xray_of_sines"
"""The name of a mark on a tensor without storage whose values were known to be sines when they were written into it."""
OF_WEIGHTS = "xray_of_weights"
"""The name of a mark on a number that weights would bring, in a model that was built without them."""
FEWEST_ROWS, MOST_ROWS, FEWEST_COLUMNS = 8, 64, 4
FEWEST_OF_WIDE, WIDE = 4, 64
"""So many rows are enough of a table so wide."""
LARGEST_TRIANGLE = 1 << 20
"""A larger square of constants is not looked through."""
PreviewRule = Callable[[str, str, Tensor], Preview | None]
"""Which block of a tensor to keep, told the step's path, its op and the tensor."""


def is_readable(tensor: Tensor) -> bool:
    """Whether there are values to read: in a plain tensor with storage behind it, outside of vmap and its like."""
    return (
        not tensor.is_meta
        and tensor.layout == torch.strided
        and not tensor.is_nested
        and type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and (tensor.numel() == 0 or tensor.untyped_storage().size() > 0)
    )


def count_zeros(constants: Tensor) -> int:
    """How many of a row of constants are 0; 0 too where all are, or all are whole, as places may be.

    A frequency of 0 turns nothing (rotary places, Su et al. 2021, section 3.4; Gemma 4). Of numbers of a single byte
    torch counts none.
    """
    is_counted = constants.is_floating_point() and constants.element_size() > 1 and len(constants) <= MAX_CONSTANTS
    if not is_counted or not is_readable(constants):
        return 0
    zeros = len(constants) - int(constants.count_nonzero())
    return zeros if 0 < zeros < len(constants) and bool((constants != constants.round()).any()) else 0


def describe_constants(constants: Tensor) -> list[tuple[str, float]]:
    """What is told of a row of constants: how many are 0, of which base they are powers, and what the last are over."""
    told: list[tuple[str, float]] = [("zeros", zeros)] if (zeros := count_zeros(constants)) else []
    base = read_base(constants)
    if base is not None:
        return [*told, ("base", base)]
    for name, read in (("slowed", read_slowed), ("all_slowed", read_all_slowed)):
        found = read(constants)
        if found is not None:
            return [*told, ("base", found[0]), (name, found[1])]
    return told


def read_constant(held: Tensor) -> float | None:
    """The one number that a tensor without axes holds, as short as its type tells it; None if it is not known."""
    if not held.is_floating_point() or not is_readable(held) or hasattr(held, OF_WEIGHTS):
        return None
    return float(f"{held.item():.6g}") if math.isfinite(held.item()) else None


def read_sizes(given: Any) -> tuple[int, ...] | None:
    """Whole numbers, some of which tensors without axes hold; None if one of them is not known."""
    parts = given if isinstance(given, (tuple, list)) else ()
    held = [one for one in parts if isinstance(one, Tensor)]
    if any(one.shape or one.is_floating_point() or not is_readable(one) for one in held):
        return None
    return tuple(map(int, parts)) if parts and all(isinstance(one, (int, Tensor)) for one in parts) else None


def read_base(constants: Tensor) -> float | None:
    """The base of powers base^(-i/n), n numbers in any order; None if they are none.

    Frequencies of rotary places are such numbers (Su et al. 2021, section 3.2.2), which fall unless a model lays them
    out for parts of a head before they turn any (ERNIE 4.5 VL).
    """
    return read_base_of(sort_falling(constants).tolist())


def sort_falling(constants: Tensor) -> Tensor:
    """Numbers that may fall from 1, or from less, the greatest first and zeros last; none where they cannot be."""
    is_told = constants.is_floating_point() and constants.element_size() > 2
    if not is_told or not FEWEST_POWERS <= len(constants) <= MAX_CONSTANTS or not is_readable(constants):
        return torch.zeros(0)
    row = constants.detach().cpu().double().sort(descending=True).values
    return row if 1 >= row[0] > row[-1] >= 0 else torch.zeros(0)


def read_frequencies(table: Tensor) -> Tensor:
    """How far the cosine and sine of each pair turn from row to row of a table; none where they are no such pairs.

    Rotary places may be held as such pairs, in rows of places from 0 on (torchtune).
    """
    is_large = table.dim() == 3 and table.shape[0] >= FEWEST_ROWS and table.shape[-1] == 2
    is_told = is_large and table.is_floating_point() and table.element_size() > 2 and is_readable(table)
    if not is_told or table.shape[1] > MAX_CONSTANTS:
        return torch.zeros(0)
    cos, sin = table.detach()[:FEWEST_ROWS].cpu().double().unbind(-1)
    turn = torch.atan2(sin[1], cos[1])
    turn = torch.where((turn - 1).abs() < 1e-6, 1.0, turn)
    angles = torch.arange(FEWEST_ROWS)[:, None] * turn
    are_turned = torch.allclose(cos, angles.cos(), atol=1e-5) and torch.allclose(sin, angles.sin(), atol=1e-5)
    return turn if are_turned else torch.zeros(0)


def turns_nothing(table: Tensor) -> bool:
    """Whether all rows of a table are alike, or cosines and sines of some are all 0: no place is told by those.

    Such is a table that was never filled, and the row of a class that stands before all places (LlamaGen).
    """
    is_told = (table.is_floating_point() or table.is_complex()) and table.element_size() > 1
    if not is_told or not 0 < table.numel() <= LARGEST_TRIANGLE or not is_readable(table):
        return False
    are_pairs = table.dim() > 2 and table.shape[-1] == 2
    rows = table.detach().flatten(1) if are_pairs else table.detach().flatten(0, -2)
    is_empty = (are_pairs or table.is_complex()) and bool((rows == 0).all(1).any())
    return is_empty or (len(rows) > 1 and bool((rows == rows[:1]).all()))


def read_slowed(constants: Tensor) -> tuple[float, float] | None:
    """The base of powers of which the last are divided by one number, and that number; None if they are none.

    For longer texts than a model was trained on, the slow frequencies of rotary places are divided by a factor, the
    fast ones stay, and those between go over from one to the other (YaRN, Peng et al. 2023, section 3.2; Llama 3.1).
    """
    row = sort_falling(constants)
    if len(row) < 2 * FEWEST_POWERS or row[0] != 1 or row[-1] == 0:
        return None
    logs, places = -row.log(), torch.arange(len(row)).double()
    is_steady = torch.isclose(logs, places * logs[FEWEST_POWERS - 1] / (FEWEST_POWERS - 1), rtol=1e-6, atol=1e-6)
    fast = int(is_steady.long().cumprod(0).sum())
    base = read_power(float(logs[fast - 1]) * len(row) / (fast - 1), (1, 2)) if fast > 1 else None
    if base is None or base < LEAST_BASE:
        return None
    over = logs - places * math.log(base) / len(row)
    factor = read_power(float(over[-1]), (1, 2, 3))
    is_slowed = bool((over.diff() > -1e-5).all()) and bool((over[-FEWEST_POWERS:] - over[-1]).abs().max() < 1e-5)
    return (base, factor) if is_slowed and factor is not None and factor > 1 else None


def read_power(exponent: float, digits: Iterable[int]) -> float | None:
    """The number of few digits that is e to an exponent; None where it has more, or is too large for a number."""
    return round_off(math.exp(exponent), digits, 1e-5) if abs(exponent) < LARGEST_EXPONENT else None


def read_all_slowed(constants: Tensor) -> tuple[float, float] | None:
    """The base of powers that are all divided by one number, and that number; None if they are none.

    So places are told as if they lay closer, for longer texts (Chen et al. 2023, section 2.3; Gemma 3).
    """
    row = sort_falling(constants)
    factor = round_off(1 / float(row[0]), (1, 2, 3)) if len(row) and row[0] < 1 else None
    base = None if factor is None else read_base(row / row[0])
    return None if factor is None or base is None else (base, factor)


def is_of_sines(table: Tensor) -> bool:
    """Whether every column of a table is a sine over its rows, as places may be (Vaswani et al. 2017, section 3.5).

    Then a row and the one two behind add up to the row between times a number of the column: 2·cos of how far a row
    turns it. Some columns have to turn, else they may be lines. Rows as far as one of zeros are those of padding. Where
    the rows are the places of a square map, each column is a sine across or down it (MAE). Few rows are enough where
    many columns agree (Kimi's frames of a video).
    """
    if getattr(table, OF_SINES, False):
        return True
    shape = table.shape[1:] if table.dim() == 3 and table.shape[0] == 1 else table.shape
    is_large = len(shape) == 2 and shape[0] >= FEWEST_OF_WIDE and shape[1] >= FEWEST_COLUMNS
    if not is_large or not table.is_floating_point() or table.element_size() < 2 or not is_readable(table):
        return False
    rows = table.detach().reshape(shape)
    exact = 1e-4 + 8 * torch.finfo(table.dtype).eps
    first = rows[:MOST_ROWS].cpu().double()
    empty = (first == 0).all(1).nonzero()
    first = first[int(empty[-1]) + 1 :] if len(empty) else first
    is_steady = len(first) >= (FEWEST_OF_WIDE if shape[1] >= WIDE else FEWEST_ROWS)
    is_steady = is_steady and all(turn_steadily(first[:, :width], exact) for width in (FEWEST_COLUMNS, shape[1]))
    return is_steady or turn_on_a_map(rows, exact)


def describe_triangle(table: Tensor) -> list[tuple[str, float]]:
    """The number that a square holds up to its diagonal, and another one behind: who may look back at whom (GPT)."""
    square = table.shape[-2:]
    is_square = len(square) == 2 and square[0] == square[1] > 1 and table.numel() == square[0] ** 2
    is_told = table.element_size() > 1 or table.dtype in (torch.bool, torch.uint8)
    if not (is_square and is_told) or table.numel() > LARGEST_TRIANGLE or not is_readable(table):
        return []
    cells = table.detach().reshape(square)
    lower = torch.ones(square, dtype=torch.bool, device=cells.device).tril()
    before, behind = cells[0, 0], cells[0, 1]
    if before == behind or not torch.equal(cells, torch.where(lower, before, behind)):
        return []
    return [("triangle", float(before)), ("behind", float(behind))]


def goes_by_distance(ids: Tensor) -> bool:
    """Whether whole numbers for pairs of places are not all one, and hang on how far apart the two are alone.

    Pairs are the last two axes, or a square that is laid flat (Swin), or squares one below the other (ProphetNet).
    Places stand in a row or on a map, in reading order; every second one may ask (LeViT), and keys may reach beyond
    those that ask (HaloNet). A class before them may have numbers of its own (BEiT).
    """
    is_told = not ids.is_floating_point() and ids.dtype != torch.bool and is_readable(ids) and ids.dim() > 0
    if not is_told or not 0 < ids.numel() <= LARGEST_TRIANGLE:
        return False
    side = math.isqrt(ids.numel()) if ids.dim() == 1 else ids.shape[-1]
    are_squares = ids.numel() % side**2 == 0 and (ids.dim() == 2 or ids.numel() == side**2)
    pairs = ids.detach().reshape(-1, side, side) if are_squares else ids.detach()
    if pairs.dim() < 2 or min(pairs.shape[-2:]) < 2:
        return False
    first, *others = pairs.reshape(-1, *pairs.shape[-2:])
    if any(not torch.equal(one, first) for one in others) or bool((first == first[0, 0]).all()):
        return False
    edges = (first[0, 1:], first[1:, 0])
    has_class = min(first.shape) > 2 and all(bool((edge == edge[0]).all()) for edge in edges)
    return move_on(first) or (has_class and move_on(first[1:, 1:]))


def move_on(pairs: Tensor) -> bool:
    """Whether numbers for pairs of places of some map hang on how far apart the two are."""
    queries, keys = pairs.shape
    if pairs[0, 0] not in (pairs[1, 1], pairs[1, 2 % keys]):  # as the last axis of any map has it
        return False
    most = 3 if queries == keys else 2
    return any(
        moves_evenly(pairs.reshape(*asking, *asked), step)
        for asking in lay_out(queries, most)
        for asked in lay_out(keys, most)
        for step in (1, 2)
        if all(fits(*sides, step) for sides in zip(asking, asked, strict=True))
    )


def lay_out(places: int, axes: int) -> list[tuple[int, ...]]:
    """The sides of all maps with so many axes and places."""
    if axes == 1:
        return [(places,)]
    sides = [side for side in range(1, places + 1) if places % side == 0]
    return [(side, *rest) for side in sides for rest in lay_out(places // side, axes - 1)]


def fits(asking: int, asked: int, step: int) -> bool:
    """Whether one axis may hold so many places that ask and are asked, where those that ask are so far apart."""
    return asking == asked == 1 or (asking > 1 and (asked >= asking if step == 1 else asking == -(-asked // step)))


def moves_evenly(pairs: Tensor, step: int) -> bool:
    """Whether numbers stay where places that ask move on by one and those asked by a step, along each axis."""
    axes = pairs.dim() // 2
    moved = [axis for axis in range(axes) if pairs.shape[axis] > 1]
    return all(
        torch.equal(
            pairs.narrow(axis, 1, pairs.shape[axis] - 1).narrow(axes + axis, step, pairs.shape[axes + axis] - step),
            pairs.narrow(axis, 0, pairs.shape[axis] - 1).narrow(axes + axis, 0, pairs.shape[axes + axis] - step),
        )
        for axis in moved
    )


def turn_on_a_map(rows: Tensor, exact: float) -> bool:
    """Whether rows are those of a square map, perhaps behind one of zeros, and the columns sines across or down it."""
    side = math.isqrt(len(rows))
    begin = len(rows) - side**2
    if not FEWEST_ROWS <= side <= MOST_ROWS or begin > 1 or (begin and bool(rows[0].any())):
        return False
    whole = rows[begin:].reshape(side, side, -1)
    for grid in (whole[:2, :2], whole):  # most tables are none by their first rows
        across, down = ((grid == one).flatten(0, 1).all(0) for one in (grid[:1], grid[:, :1]))
        if not bool((across | down).all()) or bool(across.all()) or bool(down.all()):
            return False
    ways = (whole[0][:, across], whole[:, 0][:, ~across])
    return all(turn_steadily(one.cpu().double(), exact) for one in ways)


def turn_steadily(rows: Tensor, exact: float) -> bool:
    """Whether the columns of some rows are sines, as exactly as is asked for, the first ones too."""
    around, between = rows[:-2] + rows[2:], rows[1:-1]
    factor = (between * around).sum(0) / (between * between).sum(0).clamp_min(1e-30)
    error, size = (around - factor * between).abs().amax(0), rows.abs().amax(0)
    turning = int((factor.abs() < 1.9).sum())
    return bool((error <= exact * size).all() and (factor <= 2 + exact).all()) and 32 * turning >= rows.shape[1]


def preview_everything_small(path: str, op: str, tensor: Tensor) -> Preview | None:
    """Ids in full, attention weights of the first sequence in every head, and single numbers."""
    if not is_readable(tensor):
        return None
    if not tensor.is_floating_point() and tensor.dtype != torch.bool:
        shape = tuple(tensor.shape)
    elif op == "softmax" or tensor.dim() == 0:
        shape = tuple(1 if axis == 0 else size for axis, size in enumerate(tensor.shape))
    else:
        return None
    return take_preview(tensor, shape) if math.prod(shape) <= MAX_VALUES else None


def preview_attention(path: str, op: str, tensor: Tensor) -> Preview | None:
    """Ids in full, and the attention weights of the first sequence, as many heads of it as there is room for."""
    if op != "softmax" or not is_readable(tensor) or tensor.dim() < 2:
        return preview_everything_small(path, op, tensor)
    shape = list(tensor.shape)
    if tensor.dim() > 3:  # three axes may be heads first, without sequences
        shape[0] = 1
    for axis in range(tensor.dim() - 2):
        others = math.prod(shape) // max(1, shape[axis])
        shape[axis] = max(1, min(shape[axis], MAX_WEIGHTS // max(1, others)))
    return take_preview(tensor, tuple(shape)) if math.prod(shape) <= MAX_WEIGHTS else None


def take_preview(tensor: Tensor, shape: tuple[int, ...]) -> Preview:
    """The block of the given shape at the tensor's start, floats to six significant digits, yes and no as 1 and 0."""
    block = tensor.detach()[tuple(slice(size) for size in shape)].cpu().reshape(-1)
    values = (
        write_floats(block.tolist())
        if block.is_floating_point()
        else tuple((block.byte() if block.dtype == torch.bool else block).tolist())
    )
    return Preview(start=(0,) * len(shape), shape=shape, values=values)


def write_floats(values: list[float]) -> tuple[Number, ...]:
    """Numbers to six significant digits, written in one go: one at a time they take five times as long."""
    words = ("%.6g " * len(values) % tuple(values)).split()
    return tuple(word if word in NON_FINITE else float(word) for word in words)
