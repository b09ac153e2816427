"""What a mask is called, by its kind and by what its rows show."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xray.ir.records import BOTH, PADDING, VISIBLE, MaskFacts, Span

BACK, BOTH_SIDES, ITSELF = "window", "window on both sides", "itself alone"
ALONG = "window that moves along"
BLOCKWISE = "block by block"
WEIGHING = "numbers of its own"
LEAST = 3
"""A window is told of no fewer rows."""


class Row(NamedTuple):
    """The stretch of keys that a query shows: from the first key on, up to the one before the end."""

    query: int
    first: int
    end: int


class OwnBlocks(NamedTuple):
    """Of how many keys blocks are, both where there are but two, and how many before its own a query shows.

    `before` is None where it shows all that there are.
    """

    sizes: tuple[int, ...]
    before: int | None


def name_mask(facts: MaskFacts) -> str:
    """What a mask hides, in a word: its kind, or that it is a window, where every query reads the nearest few keys.

    One that adds several numbers, none low enough to hide for sure, is not said to hide nothing (Swin's -100).
    """
    if facts.kind != "custom":
        return WEIGHING if facts.kind == "none" and facts.weighs else facts.kind
    names = {name_window(*window) for window in read_windows(facts)}
    name = names.pop() if len(names) == 1 else ""
    name = name or (BLOCKWISE if read_own_blocks(facts) else "")
    return name or (ALONG if moves_along(facts) else facts.kind)


def read_windows(facts: MaskFacts) -> tuple[tuple[int, int], ...]:
    """How many keys before itself each query shows, and how many behind: what is found in some matrices.

    Empty where one of them shows no window.
    """
    found = [measure_window(size, rows) for size, rows in list_squares(facts)]
    windows = [one for one in dict.fromkeys(found) if one is not None]
    return () if None in found else tuple(windows)


def name_window(back: int, ahead: int) -> str:
    """What a window is called by how far it goes before and behind a query."""
    return BOTH_SIDES if ahead else BACK if back else ITSELF


def read_own_blocks(facts: MaskFacts) -> OwnBlocks | None:
    """The blocks of which each query shows its own, alone or with some before it; None where it shows what is none."""
    is_known = bool(facts.cells) or not any(
        count > 2 and (step or end_step) for spans in facts.spans or () for count, _, step, _, end_step in spans
    )
    found = {find_own_blocks(size, rows) for size, rows in list_squares(facts)} if is_known else set()
    return found.pop() if len(found) == 1 else None


def find_own_blocks(size: int, rows: Sequence[Row]) -> OwnBlocks | None:
    """The same of one matrix, with two rows in the second block at least."""
    block = rows[0].end if rows else 0
    if not 1 < block < size - 1:
        return None
    before = max(row.query // block - row.first // block for row in rows)
    is_even = all(
        row.first == max(0, row.query // block - before) * block
        and row.end == min(size, (row.query // block + 1) * block)
        for row in rows
    )
    sizes = (block, size - block) if size <= 2 * block else (block,)
    return OwnBlocks(sizes, before if before < (size - 1) // block else None) if is_even else None


def hides_later(facts: MaskFacts, shape: Sequence[int]) -> bool:
    """Whether no query of a mask shows a key behind its own place; the last query's own is the last key.

    A query that is padding may show all (Llama, padded left). In each matrix a later query shows later keys, and one of
    them keys before its own.
    """
    queries, keys = (1, *shape)[-2:]
    matrices, before = [*list_ends(facts, keys)], keys - queries
    return bool(matrices) and all(
        all(row.end <= row.query + 1 + before for row in rows)
        and any(row.first < row.query + before for row in rows)
        and len({row.end for row in rows}) > 1
        for rows in matrices
    )


def list_ends(facts: MaskFacts, keys: int) -> Iterator[list[Row]]:
    """The queries of each matrix that show some keys and not all, from the first one up to the last."""
    for matrix in facts.cells or ():
        rows = [Row(query, cells.find(VISIBLE), cells.rfind(VISIBLE) + 1) for query, cells in enumerate(matrix)]
        yield [row for row in rows if row.end and matrix[row.query].count(VISIBLE) < keys]
    for spans in () if facts.cells else facts.spans or ():
        yield [row for row in read_spans(spans) if 0 < row.end - row.first < keys]


def moves_along(facts: MaskFacts) -> bool:
    """Whether each query of a block shows a stretch of a longer row of keys that begins one further than before it.

    Of what is no padding, and in all blocks alike; a query may show nothing (Gemma 4 Audio). On both sides of what is
    shown something is hidden: rows that hide the future alone show one more of the past each.
    """
    seen: dict[int, set[bool]] = {}
    for matrix in facts.cells or ():
        for query, cells in enumerate(matrix):
            for key, letter in enumerate(cells if VISIBLE in cells and len(cells) > len(matrix) >= LEAST else ""):
                if letter not in (PADDING, BOTH):
                    seen.setdefault(key - query, set()).add(letter == VISIBLE)
    shown = [distance for distance, found in seen.items() if True in found]
    is_even = all(len(found) == 1 for found in seen.values()) and len(shown) > 1
    is_between = is_even and min(seen) < min(shown) and max(shown) < max(seen)
    return is_between and max(shown) - min(shown) + 1 == len(shown)


def list_squares(facts: MaskFacts) -> Iterator[tuple[int, list[Row]]]:
    """The matrices of a mask: how many queries and keys each has, and what its rows show; rows in between are even."""
    for matrix in facts.cells or ():
        is_square = len(matrix) == len(matrix[0])
        yield len(matrix), [read_cells(query, cells) for query, cells in enumerate(matrix)] if is_square else []
    for spans in () if facts.cells else facts.spans or ():
        yield sum(count for count, *_ in spans), list(read_spans(spans))


def read_cells(query: int, cells: str) -> Row:
    """A row of cells; one that shows no single stretch shows nothing."""
    first, count = cells.find(VISIBLE), cells.count(VISIBLE)
    is_one = VISIBLE * count in cells
    return Row(query, first, first + count) if count and is_one else Row(query, 0, 0)


def read_spans(spans: Sequence[Span]) -> Iterator[Row]:
    """The first and the last row of each run of rows that move on evenly."""
    query = 0
    for count, first, step, end, end_step in spans:
        for row in sorted({0, count - 1}):
            yield Row(query + row, first + row * step, end + row * end_step)
        query += count


def measure_window(size: int, rows: Sequence[Row]) -> tuple[int, int] | None:
    """The window of one matrix, as far as there are so many keys; None where one shows all that there are on a side."""
    if size < LEAST or not rows:
        return None
    back = max(row.query - row.first for row in rows)
    ahead = max(row.end - row.query - 1 for row in rows)
    regular = all(row.first == max(0, row.query - back) and row.end == min(size, row.query + 1 + ahead) for row in rows)
    is_window = regular and back < size - 1 and ahead < size - 1 and not (ahead and back < 1)
    return (back, ahead) if is_window else None
