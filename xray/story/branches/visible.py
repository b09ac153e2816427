"""Which places a mask lets each place see, told by its cells: the same for all, those of one piece, or some others."""

import numpy as np

from xray.story.recognition.value_rules import LOW
from xray.story.recognition.value_shapes import Values

FEWEST = 2


def count_blocks(squares: Values) -> int | None:
    """How many pieces lie end to end of which each sees itself alone and whole; None where it is otherwise."""
    rows, columns = squares.shape[-2:]
    if rows != columns or np.isnan(squares).any():
        return None
    seen = squares > LOW
    if not (seen == seen[:1]).all():
        return None
    begins = np.argmax(seen[0], axis=-1)  # the first key that each query sees
    pieces = np.cumsum(np.concatenate([[True], begins[1:] != begins[:-1]]))
    is_cut = np.array_equal(seen[0], pieces[:, None] == pieces[None, :])
    return int(pieces[-1]) if is_cut and pieces[-1] >= FEWEST else None


def hides_from_some(squares: Values) -> bool:
    """Whether what some places see is hidden from others of the same sequence: no padding, which nobody sees."""
    hidden, asks = squares <= LOW, (squares > LOW).any(axis=-1, keepdims=True)  # a row of padding may see nothing
    return bool(((hidden & asks).any(axis=-2) & (squares > LOW).any(axis=-2)).any())
