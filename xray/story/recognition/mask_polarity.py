"""What a boolean mask hides is settled by the step that uses it, whatever was assumed when it was first seen."""

from dataclasses import replace

from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, VISIBLE, MaskFacts, MaskKind, Polarity, TensorRecord


def settle_polarity(record: TensorRecord, *, true_hides: bool) -> TensorRecord:
    """The mask's record with facts that fit its use: turned round where they say the opposite."""
    polarity: Polarity = "true_is_hidden" if true_hides else "true_is_visible"
    facts = record.mask
    if facts is None or record.dtype != "bool" or facts.polarity in (polarity, "additive"):
        return record
    return replace(record, mask=turn_round(facts, polarity))


def turn_round(facts: MaskFacts, polarity: Polarity) -> MaskFacts:
    """The facts of a mask that shows what was taken to be hidden."""
    share = round(1.0 - facts.hidden_share, 6)
    if facts.cells is None:
        return MaskFacts("none" if share == 0 else "custom", share, polarity)
    visible = tuple(tuple(tuple(letter != VISIBLE for letter in row) for row in matrix) for matrix in facts.cells)
    causal = all(looks_causal(matrix) for matrix in visible)
    cells = tuple(explain(matrix, causal=causal) for matrix in visible)
    return MaskFacts(name_kind(cells), share, polarity, cells)


def looks_causal(matrix: tuple[tuple[bool, ...], ...]) -> bool:
    """Whether no query of a square mask sees a key behind it."""
    return 1 < len(matrix) == len(matrix[0]) and not any(any(row[query + 1 :]) for query, row in enumerate(matrix))


def explain(matrix: tuple[tuple[bool, ...], ...], *, causal: bool) -> tuple[str, ...]:
    """A letter for each cell: a column that the last query does not see is padding, a key behind its query future."""

    def letter(query: int, key: int, seen: bool) -> str:
        if seen:
            return VISIBLE
        future = causal and key > query
        if not matrix[-1][key]:
            return BOTH if future else PADDING
        return FUTURE if future else HIDDEN

    return tuple("".join(letter(query, key, seen) for key, seen in enumerate(row)) for query, row in enumerate(matrix))


def name_kind(cells: tuple[tuple[str, ...], ...]) -> MaskKind:
    """What a mask hides, by its letters."""
    letters = {letter for matrix in cells for row in matrix for letter in row} - {VISIBLE}
    if HIDDEN in letters:
        return "custom"
    padding, future = bool(letters & {PADDING, BOTH}), bool(letters & {FUTURE, BOTH})
    if padding and future:
        return "padding+causal"
    return "padding" if padding else "causal" if future else "none"
