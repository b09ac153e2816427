"""Masks too large to be kept cell by cell: which stretch of keys each row shows, in a few numbers."""

from typing import NamedTuple

import torch
from torch import Tensor

from xray.ir.records import MaskKind, Span

MOST_LOOKED_AT = 1 << 26
"""Masks with more cells than this are not read row by row."""
MOST_SPANS = 512
CHUNK = 1 << 22
"""So many cells are read at a time."""

Stretches = tuple[Span, ...]


def drop_repeats(mask: Tensor) -> Tensor:
    """The mask with leading axes that only repeat it cut to one."""
    for axis in range(mask.dim() - 2):
        if mask.stride(axis) == 0 and mask.shape[axis] > 1:
            mask = mask.narrow(axis, 0, 1)
    return mask


class Rows(NamedTuple):
    """What the rows of a large mask come to: the share that is hidden, how many show nothing, and their stretches."""

    hidden_share: float
    blind: int
    spans: tuple[Stretches, ...] | None


def read_rows(visible: Tensor) -> Rows:
    """A large mask read row by row; without stretches where a row shows several, or where there are too many cells.

    Shapes:
        visible: (..., queries, keys)
    """
    rows, keys = visible.shape[-2:]
    spans: list[Stretches | None] = []
    seen = blind = 0
    for matrix in visible.reshape(-1, rows, keys):
        shown, empty, found = read_matrix(matrix, with_spans=None not in spans and visible.numel() <= MOST_LOOKED_AT)
        seen, blind = seen + shown, blind + empty
        spans.append(found)
    known = tuple(one for one in spans if one is not None)
    alike = known[:1] if all(one == known[0] for one in known) else known
    return Rows(round(1 - seen / visible.numel(), 6), blind, alike if len(known) == len(spans) else None)


def read_matrix(matrix: Tensor, *, with_spans: bool) -> tuple[int, int, Stretches | None]:
    """How many cells of a matrix are visible, how many rows see nothing, and the stretches of keys that rows show."""
    rows, keys = matrix.shape
    firsts: list[int] = []
    ends: list[int] = []
    seen = blind = 0
    height = max(1, CHUNK // max(1, keys))
    for begin in range(0, rows, height):
        block = matrix[begin : begin + height].to(torch.uint8)
        counts = block.sum(dim=-1, dtype=torch.int32)
        empty = counts == 0
        seen, blind = seen + int(counts.sum()), blind + int(empty.sum())
        if not with_spans:
            continue
        first = block.argmax(dim=-1)
        end = keys - block.flip(-1).argmax(dim=-1)
        with_spans = not bool(((end - first != counts) & ~empty).any())
        firsts += first.masked_fill(empty, 0).tolist()
        ends += end.masked_fill(empty, 0).tolist()
    return seen, blind, join_rows(firsts, ends) if with_spans else None


def join_rows(firsts: list[int], ends: list[int]) -> Stretches | None:
    """Rows one below the other whose stretches move on by the same step, taken together; None if that are too many."""
    spans: list[Span] = []
    begin = 0
    while begin < len(firsts):
        if len(spans) == MOST_SPANS:
            return None
        after = begin + 1
        steps = (0, 0)
        if after < len(firsts):
            steps = (firsts[after] - firsts[begin], ends[after] - ends[begin])
            is_even = steps[0] in (0, 1) and steps[1] in (0, 1)
            steps = steps if is_even else (0, 0)
            while after < len(firsts) and is_even:
                if (firsts[after] - firsts[after - 1], ends[after] - ends[after - 1]) != steps:
                    break
                after += 1
        spans.append((after - begin, firsts[begin], steps[0], ends[begin], steps[1]))
        begin = after
    return tuple(spans)


def turn_spans(matrices: tuple[Stretches, ...], keys: int) -> tuple[Stretches, ...] | None:
    """The stretches that are hidden, as long as each row's is one."""
    turned = []
    for matrix in matrices:
        spans = []
        for rows, first, first_step, end, end_step in matrix:
            if first == 0 and first_step == 0:
                spans.append((rows, end, end_step, keys, 0))
            elif end == keys and end_step == 0:
                spans.append((rows, 0, 0, first, first_step))
            else:
                return None
        turned.append(tuple(spans))
    return tuple(turned)


def name_spans(matrices: tuple[Stretches, ...], shape: tuple[int, ...]) -> MaskKind:
    """What kind of mask such stretches make: a triangle, padding, both, or another one."""
    queries, keys = shape[-2:]
    kinds = set()
    for matrix in matrices:
        rows = [
            (first + step * row, end + end_step * row)
            for count, first, step, end, end_step in matrix
            for row in range(count)
        ]
        kinds.add(name_rows(rows, queries, keys))
    kinds -= {"none"} if len(kinds) > 1 else set()
    if kinds <= {"causal", "padding", "padding+causal"} and len(kinds) > 1:
        return "padding+causal" if kinds != {"padding"} and kinds != {"causal"} else kinds.pop()
    return kinds.pop() if len(kinds) == 1 else "custom"


def name_rows(rows: list[tuple[int, int]], queries: int, keys: int) -> MaskKind:
    shown = [(first, end) for first, end in rows if end > first]
    if not shown:
        return "custom"
    if 1 < queries < keys and rows == [(0, row + 1) for row in range(queries)]:
        return "causal"  # the first places of a longer cache
    low, high = min(first for first, _ in shown), max(end for _, end in shown)
    is_causal = queries == keys > 1 and all(end <= row + 1 for row, (_, end) in enumerate(rows))
    meant = [(low, min(high, row + 1) if is_causal else high) for row in range(len(rows))]
    if any(one != other and (other[1] > other[0] or one[1] > one[0]) for one, other in zip(rows, meant, strict=True)):
        return "custom"
    padded = low > 0 or high < keys
    if is_causal:
        return "padding+causal" if padded else "causal"
    return "padding" if padded else "none"
