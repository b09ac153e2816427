"""What a mask is called, by its kind and its cells."""

from xray.ir.records import VISIBLE, MaskFacts


def name_mask(facts: MaskFacts) -> str:
    """What a mask hides, in a word: its kind, or "window" where every query reads the last few keys up to its own."""
    cells = facts.cells or ()
    return "window" if facts.kind == "custom" and cells and all(map(count_window, cells)) else facts.kind


def count_window(rows: tuple[str, ...]) -> int:
    """How many keys each query reads at most, its own the last; 0 where that is no rule, or as many as there are."""
    if len(rows) < 3 or len(rows) != len(rows[0]):
        return 0
    wide = max(row.count(VISIBLE) for row in rows)
    regular = all(
        (cell == VISIBLE) == (0 <= query - key < wide) for query, row in enumerate(rows) for key, cell in enumerate(row)
    )
    return wide if regular and wide < len(rows) else 0
