"""The numbers of masks, from the cells or stretches that were recorded of them."""

from math import prod

import numpy as np

from xray.ir.records import VISIBLE, MaskFacts, TensorRecord
from xray.story.recognition.values.value_shapes import Values

MOST = 1 << 20
"""Tensors with more numbers than this are not worked out."""
SIGNS = {"additive": (0.0, -np.inf), "true_is_visible": (1.0, 0.0), "true_is_hidden": (0.0, 1.0)}
"""What stands in a mask where a key is visible, and where it is hidden."""


def read_cells(record: TensorRecord) -> Values | None:
    """A mask's numbers as they were: 1 for True, -inf for what an added mask hides; None if they were not kept.

    What such a mask adds where it hides nothing is unknown, which is NaN, if it weighs.
    """
    facts = record.mask
    if facts is None or len(record.shape) < 2:
        return None
    if facts.cells is None:
        return read_spans(record, facts)
    visible, hidden = (np.nan, -np.inf) if facts.weighs else SIGNS[facts.polarity]
    cells = [visible if cell == VISIBLE else hidden for square in facts.cells for row in square for cell in row]
    return np.asarray(cells).reshape(record.shape) if len(cells) == prod(record.shape) else None


def read_spans(record: TensorRecord, facts: MaskFacts) -> Values | None:
    """The same of a mask that was too large to keep, from the stretch that each row shows."""
    if facts.spans is None or prod(record.shape) > MOST:
        return None
    keys = np.arange(record.shape[-1])
    visible, hidden = (np.nan, -np.inf) if facts.weighs else SIGNS[facts.polarity]
    squares = []
    for matrix in facts.spans:
        rows = [
            (first + step * row, end + end_step * row)
            for count, first, step, end, end_step in matrix
            for row in range(count)
        ]
        firsts, ends = np.asarray(rows).T
        squares.append(np.where((keys >= firsts[:, None]) & (keys < ends[:, None]), visible, hidden))
    if len(squares) not in (1, prod(record.shape[:-2])) or squares[0].shape != record.shape[-2:]:
        return None
    whole: Values = np.stack(squares) if len(squares) > 1 else np.broadcast_to(squares[0], record.shape)
    return whole.reshape(record.shape)
