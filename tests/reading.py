"""Whole corpora in memory, as only tests want them."""

import tempfile
from pathlib import Path

from xray.data.pairs import Pair
from xray.data.reading.rows import Rows


def read_pairs(source):
    """All pairs of a source in their order."""
    return read_with_notes(source)[0]


def read_with_notes(source):
    """All pairs of a source in their order, and what there is to say about them."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(source, Path(folder) / "rows")
        rows.make_ready()
        return tuple(Pair(*row.values()) for block in rows for row in block.to_pylist()), rows.notes
