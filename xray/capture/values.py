"""The few values that a record may hold: mask cells with their reasons, and previews."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, VISIBLE, MaskFacts, MaskKind, Number, Preview

MAX_CELLS = 65_536
"""Masks with more cells than this keep their kind and share only."""
MAX_VALUES = 16_384
"""The most values that one preview holds."""

PreviewRule = Callable[[str, str, Tensor], Preview | None]
"""Which block of a tensor to keep, told the step's path, its op and the tensor."""


def is_readable(tensor: Tensor) -> bool:
    """Whether there are values to read: not on the meta device, not sparse or nested, with storage behind it."""
    return not tensor.is_meta and tensor.layout == torch.strided and not tensor.is_nested


def describe_mask(mask: Tensor, kind: MaskKind | None) -> MaskFacts | None:
    """Kind, share hidden and cells of a boolean mask that is True where a query may read a key.

    `kind` is what the module that made the mask says of it; without that, the cells decide. A column hidden from the
    last query is padding, a key after its query is the future.
    """
    if not is_readable(mask) or mask.dtype != torch.bool or mask.dim() < 2 or mask.numel() == 0:
        return None
    hidden_share = 1.0 - mask.float().mean().item()
    if mask.numel() > MAX_CELLS:
        return MaskFacts(kind or "custom", round(hidden_share, 6))
    rows, keys = mask.shape[-2:]
    matrices = mask.detach().reshape(-1, rows, keys).cpu().tolist()
    causal = kind in ("causal", "padding+causal") or (kind is None and looks_causal(matrices))
    cells = tuple(explain_cells(matrix, causal=causal, padded=kind != "causal") for matrix in matrices)
    return MaskFacts(kind or name_kind(cells), round(hidden_share, 6), cells=cells)


def looks_causal(matrices: list[list[list[bool]]]) -> bool:
    """Whether no query of any square matrix sees a key after it; one query alone has no future."""
    return all(
        1 < len(matrix) == len(matrix[0])
        and not any(seen for query, row in enumerate(matrix) for seen in row[query + 1 :])
        for matrix in matrices
    )


def explain_cells(matrix: list[list[bool]], *, causal: bool, padded: bool) -> tuple[str, ...]:
    """A letter for each cell of one mask, saying why it is hidden."""
    padding = [padded and not seen for seen in matrix[-1]]

    def letter(query: int, key: int, seen: bool) -> str:
        if seen:
            return VISIBLE
        future = causal and key > query
        if padding[key]:
            return BOTH if future else PADDING
        return FUTURE if future else HIDDEN

    return tuple("".join(letter(query, key, seen) for key, seen in enumerate(row)) for query, row in enumerate(matrix))


def name_kind(cells: tuple[tuple[str, ...], ...]) -> MaskKind:
    letters = {letter for matrix in cells for row in matrix for letter in row}
    if HIDDEN in letters:
        return "custom"
    padding, future = bool(letters & {PADDING, BOTH}), bool(letters & {FUTURE, BOTH})
    if padding and future:
        return "padding+causal"
    if padding or future:
        return "padding" if padding else "causal"
    return "none"


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


def take_preview(tensor: Tensor, shape: tuple[int, ...]) -> Preview:
    """The block of the given shape at the tensor's start, floats to six significant digits."""
    block = tensor.detach()[tuple(slice(size) for size in shape)]
    values = block.cpu().reshape(-1).tolist()
    return Preview(start=(0,) * len(shape), shape=shape, values=tuple(write_number(value) for value in values))


def write_number(value: float | int) -> Number:
    if isinstance(value, int):
        return value
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.6g}")
