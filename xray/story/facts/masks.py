"""The masks of a pass that attention really reads, each with the words that stand at its rows and columns."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xray.ir.records import HIDDEN, PARTIAL, VISIBLE, MaskBlocks, MaskFacts, TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.walk.stations import station_of


@dataclass(frozen=True)
class MaskSquare:
    """One matrix of a mask: a row for each query, a column for each key, and their words where they are known.

    `index` is its place along the mask's leading axes. A mask that is the same for all queries has one row and no
    query words.
    """

    index: tuple[int, ...]
    rows: tuple[str, ...]
    query_words: tuple[str, ...]
    key_words: tuple[str, ...]

    @property
    def visible(self) -> int:
        """How many cells may be read."""
        return sum(row.count(VISIBLE) for row in self.rows)


@dataclass(frozen=True)
class MaskStory:
    """A mask, the step that made it, who reads it, and its matrices; none where it was too large to keep.

    `readers` are the steps that read it, by the title of their station, or by their path where they stand at none.
    """

    step: Step
    record: TensorRecord
    readers: tuple[str, ...]
    squares: tuple[MaskSquare, ...]


def list_masks(one_pass: Pass) -> tuple[MaskStory, ...]:
    """The masks that a pass made, in order, without those that only went into another mask."""
    made = [
        (step, record) for step in one_pass.leaves for record in step.outputs if record.role == "mask" and record.mask
    ]
    used_up = {
        entry.source for step, _ in made for entry in step.inputs if entry.role == "mask" and entry.source is not None
    }
    return tuple(
        MaskStory(
            step,
            record,
            tuple(name_reader(one_pass, reader) for reader in readers_of(step, one_pass)),
            tuple(cut_squares(record, one_pass)),
        )
        for step, record in made
        if step.id not in used_up
    ) + tuple(list_asked(one_pass))


def list_asked(one_pass: Pass) -> Iterator[MaskStory]:
    """The masks that no step made, but that flex attention asks for block by block, each with all who read it."""
    told: dict[TensorRecord, list[Step]] = defaultdict(list)
    for step in one_pass.leaves:
        for record in step.inputs:
            if record.source is None and record.mask is not None and record.mask.blocks is not None:
                told[record].append(step)
    for record, readers in told.items():
        yield MaskStory(
            readers[0],
            record,
            tuple(name_reader(one_pass, reader) for reader in readers),
            tuple(cut_squares(record, one_pass)),
        )


def draws_blocks(facts: MaskFacts) -> bool:
    """Whether a mask is drawn by its blocks: flex attention runs by them, and there is more than one."""
    return facts.blocks is not None and any(len(matrix) * len(matrix[0]) > 1 for matrix in facts.blocks.cells)


def quarter_blocks(blocks: MaskBlocks) -> tuple[tuple[str, ...], ...]:
    """The blocks of the first sequence and head as letters of cells, four for each.

    A full block is visible, a skipped one hidden, and a partial one is both.
    """
    quarters = {VISIBLE: (VISIBLE * 2,) * 2, PARTIAL: (VISIBLE + HIDDEN, HIDDEN + VISIBLE), HIDDEN: (HIDDEN * 2,) * 2}
    return tuple(tuple("".join(quarters[letter][half] for letter in row)) for row in blocks.cells[0] for half in (0, 1))


def describe_blocks(blocks: MaskBlocks) -> str:
    """How many blocks there are, of which size, and how many of them are full, partial and skipped."""
    matrix = blocks.cells[0]
    counts = [sum(row.count(letter) for row in matrix) for letter in (VISIBLE, PARTIAL, HIDDEN)]
    told = ", ".join(f"{count:,} {word}" for count, word in zip(counts, ("full", "partial", "skipped"), strict=True))
    several = "" if len(blocks.cells) == 1 else f", the first of {len(blocks.cells)}"
    return f"{len(matrix)}×{len(matrix[0])} blocks of {blocks.queries}×{blocks.keys}: {told}{several}"


def readers_of(maker: Step, one_pass: Pass) -> Iterator[Step]:
    """The operations that read what a step made as their mask."""
    for step in one_pass.leaves:
        if any(record.role == "mask" and record.source == maker.id for record in step.inputs):
            yield step


def cut_squares(record: TensorRecord, one_pass: Pass) -> Iterator[MaskSquare]:
    """The matrices of a mask, one for each place along its leading axes."""
    if record.mask is None or record.mask.cells is None:
        return
    leading = record.shape[:-2]
    for number, rows in enumerate(record.mask.cells[: prod(leading)]):
        index = place_of(number, leading)
        sequence = index[record.axes.index("batch")] if "batch" in record.axes[:-2] else 0
        queries = record.axes[-2] if len(record.axes) > 1 else "1"
        yield MaskSquare(
            index=index,
            rows=rows,
            query_words=find_words(one_pass, queries, sequence, len(rows)),
            key_words=find_words(one_pass, record.axes[-1], sequence, len(rows[0]) if rows else 0),
        )


def place_of(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index along each axis of the n-th entry in row-major order."""
    index: list[int] = []
    for size in reversed(shape):
        index.insert(0, number % size)
        number //= size
    return tuple(index)


def find_words(one_pass: Pass, axis: str, sequence: int, count: int) -> tuple[str, ...]:
    """The words along an axis of one sequence; none where the pass does not know so many."""
    name = {"src_len": "src", "tgt_len": "decoder_input"}.get(axis, "")
    rows = one_pass.tokens.get(name, ())
    words = rows[sequence] if sequence < len(rows) else ()
    return words if len(words) == count else ()


def name_reader(one_pass: Pass, step: Step) -> str:
    """Where a mask is read."""
    station = station_of(one_pass, step)
    return step.path if station is None else station.title
