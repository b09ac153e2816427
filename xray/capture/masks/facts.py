"""Masks: read while the tensor is there, explained cell by cell when the recording is."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn

from xray.capture.masks.spans import Stretches, drop_repeats, join_rows, name_spans, read_rows
from xray.capture.values import is_readable
from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, VISIBLE, MaskBlocks, MaskFacts, MaskKind, Polarity

MAX_CELLS = 65_536
"""Masks with more cells than this keep their kind and share only."""
LOWEST_SCORE = -9_999.0
"""An additive mask hides where it is lower than this; some models add -10000 rather than -inf."""

HAS_NUMPY = find_spec("numpy") is not None
Matrix = list[bytes]
NO_PADDING = str.maketrans({PADDING: HIDDEN, BOTH: FUTURE})
"""In a mask with a rule of its own, one and the same for all sequences, a key that nobody sees need be no padding."""


class SeenMask(NamedTuple):
    """A mask as it was seen: a byte for each cell, 1 where a query may read a key; None if too large to keep."""

    kind: MaskKind | None
    polarity: Polarity
    shape: tuple[int, ...]
    visible: bytes | None
    hidden_share: float
    blind_rows: int | None = None
    spans: tuple[Stretches, ...] | None = None
    blocks: MaskBlocks | None = None
    weighs: bool = False

    def to_facts(self) -> MaskFacts:
        """The facts, with a letter for each cell that says why it is hidden."""
        if self.visible is None:
            kind = self.kind or ("custom" if self.spans is None else name_spans(self.spans, self.shape))
            return MaskFacts(
                kind, self.hidden_share, self.polarity, None, self.blind_rows, self.spans, self.blocks, self.weighs
            )
        rows, keys = self.shape[-2:]
        lines = [self.visible[start : start + keys] for start in range(0, len(self.visible), keys)]
        matrices = [lines[start : start + rows] for start in range(0, len(lines), rows)]
        told = self.kind or ("causal" if all(is_beginning(matrix) for matrix in matrices) else None)
        causal = told in ("causal", "padding+causal") or (told is None and looks_causal(matrices))
        cells = tuple(explain_cells(matrix, told, causal=causal) for matrix in matrices)
        kind = told or name_kind(cells)
        if told is None and kind == "custom" and all(matrix == matrices[0] for matrix in matrices):
            cells = tuple(tuple(row.translate(NO_PADDING) for row in matrix) for matrix in cells)
        return MaskFacts(kind, self.hidden_share, self.polarity, cells, blocks=self.blocks, weighs=self.weighs)


def look_at_mask(mask: Tensor, kind: MaskKind | None, *, true_is_hidden: bool = False) -> SeenMask | None:
    """What a mask hides; None for a tensor that cannot be one, or has no values.

    Booleans say where a query may read a key, or with `true_is_hidden` where it may not; floats are added to the
    scores, and hide where they are very negative; such of ones and zeros are multiplied with, and are none. `kind` is
    what the module that made the mask says of it; without that, the cells decide: a column hidden from all queries is
    padding, a key after its query is the future.
    """
    if mask.dim() < 2 or not is_readable(mask) or mask.numel() == 0:
        return None
    polarity: Polarity
    whole = mask
    mask = drop_repeats(mask) if mask.numel() > MAX_CELLS else mask
    if mask.dtype == torch.bool:
        polarity = "true_is_hidden" if true_is_hidden else "true_is_visible"
        visible = ~mask if true_is_hidden else mask
    elif mask.is_floating_point() and not is_factor(mask):
        polarity, visible = "additive", mask > LOWEST_SCORE
    else:
        return None
    shown = mask[visible] if polarity == "additive" else mask[:0]
    weighs = bool((shown != shown[:1]).any())
    if whole.numel() > MAX_CELLS:
        rows = read_rows(visible)
        repeats = whole.numel() // visible.numel()
        blind = rows.blind * repeats
        return SeenMask(kind, polarity, whole.shape, None, rows.hidden_share, blind, rows.spans, weighs=weighs)
    cells = read_bytes(visible)
    return SeenMask(kind, polarity, mask.shape, cells, round(1.0 - cells.count(1) / len(cells), 6), weighs=weighs)


def is_factor(mask: Tensor) -> bool:
    """Whether a mask is made of ones and zeros, one of which is a one: nobody adds such to scores."""
    ones = mask == 1
    return bool(ones.any()) and bool((ones | (mask == 0)).all())


def read_bytes(visible: Tensor) -> bytes:
    """A byte for each cell."""
    cells = visible.detach().contiguous().view(torch.uint8)
    return bytes(cells.cpu().numpy().tobytes()) if HAS_NUMPY else bytes(cells.flatten().tolist())


def tells_what_is_hidden(name: str, op: str, module: nn.Module | None) -> bool:
    """Whether True hides: so it does in the masks of torch's own attention layers, and where it says what to fill."""
    in_torch = module is not None and type(module).__module__.startswith("torch.nn.")
    return in_torch or "key_padding_mask" in name or op in ("masked_fill", "masked_fill_")


def chooses_hidden(args: Sequence[object]) -> bool | None:
    """Whether True hides in a condition that chooses between scores and one number far below all; None if it does not.

    `where(visible, scores, lowest)` is how some models mask (ImageGPT).
    """
    condition, *sides = args if len(args) == len(("condition", "input", "other")) else (None,)
    if not isinstance(condition, Tensor) or condition.dtype != torch.bool:
        return None
    below = [is_far_below(side) for side in sides]
    scored = [isinstance(side, Tensor) and side.is_floating_point() and side.dim() > 1 for side in sides]
    return below[0] if sorted(below) == sorted(scored) == [False, True] and below != scored else None


def is_far_below(value: object) -> bool:
    """Whether something is one number that hides where it stands among scores."""
    if isinstance(value, Tensor):
        return value.dim() == 0 and is_readable(value) and float(value) < LOWEST_SCORE
    return isinstance(value, float) and value < LOWEST_SCORE


@lru_cache(maxsize=64)
def imply_causal(queries: int, keys: int) -> SeenMask:
    """The mask that `is_causal` stands for: query i may read keys 0 to i."""
    visible = sum(min(query + 1, keys) for query in range(queries))
    hidden_share = round(1 - visible / (queries * keys), 6) if queries * keys else 0.0
    cells = None
    spans: tuple[Stretches, ...] | None = None
    if 0 < queries * keys <= MAX_CELLS:
        cells = b"".join(bytes([key <= query for key in range(keys)]) for query in range(queries))
    else:
        ends = [min(query + 1, keys) for query in range(queries)]
        rows = join_rows([0] * queries, ends)
        spans = None if rows is None else (rows,)
    return SeenMask("causal", "true_is_visible", (1, 1, queries, keys), cells, hidden_share, None, spans)


def looks_causal(matrices: list[Matrix]) -> bool:
    """Whether no query of any square matrix sees a key after it, and one of them sees a key before it.

    One query alone has no future; where each sees itself alone, nothing is hidden for its being later.
    """
    sees_none_later = all(
        1 < len(matrix) == len(matrix[0]) and not any(any(row[query + 1 :]) for query, row in enumerate(matrix))
        for matrix in matrices
    )
    return sees_none_later and any(any(row[:query]) for matrix in matrices for query, row in enumerate(matrix))


def is_beginning(matrix: Matrix) -> bool:
    """Whether queries are the first places of more keys, and each sees those up to its own: a longer cache (gpt-fast).

    What is behind the last of them is no padding, though no query sees it: places to come.
    """
    keys = len(matrix[0]) if matrix else 0
    return 1 < len(matrix) < keys and all(
        row == bytes([1] * (query + 1) + [0] * (keys - query - 1)) for query, row in enumerate(matrix)
    )


def explain_cells(matrix: Matrix, kind: MaskKind | None, *, causal: bool) -> tuple[str, ...]:
    """A letter for each cell of one mask, saying why it is hidden.

    Padding is what every query is hidden from, but for those that see all, as libraries let rows of padding do. Where
    some see all and the others nothing, these are hidden as queries are, and no key is padding. Nor is any where keys
    are hidden here and there amid others, as every sixteenth (Trajectory Transformer), nor one that all later queries
    are hidden from since they see nothing, and all before it as it is their future.
    """
    partial = [row for row in matrix if 0 in row]
    partial = matrix if len(partial) < len(matrix) and not any(map(any, partial)) else partial
    unseen = [not any(row[key] for row in (*partial, matrix[-1])) for key in range(len(matrix[-1]))]
    if kind is None and causal and any(map(any, matrix)):
        unseen = [one and any(map(any, matrix[key:])) for key, one in enumerate(unseen)]
    padding = [kind == "padding" or (kind != "causal" and one) for one in unseen]
    runs = [hidden for hidden, _ in groupby(padding)]
    padding = [False] * len(padding) if kind is None and sum(runs[1:-1]) > 1 else padding

    def letter(query: int, key: int, seen: int) -> str:
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
