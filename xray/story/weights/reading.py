"""Pictures read off a recording: the weights that were kept, the words beside them, what the mask hides."""

from collections.abc import Iterator

import numpy as np

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.records import VISIBLE, Preview
from xray.ir.trace import Pass, Trace
from xray.story.body.reading import read_pass
from xray.story.branches.scored.scores import mark_hidden, read_squares
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.values.known_values import keep_hiding
from xray.story.recognition.values.value_rules import LOW
from xray.story.roles.mask_roles import collect_facts, settle
from xray.story.weights.axis_words import name_axes
from xray.story.weights.found import FoundAttention, list_attentions
from xray.story.weights.picture import Picture, mean_entropy

Cells = tuple[tuple[bool, ...], ...]


def read_pictures(trace: Trace, one_pass: Pass, kind: str) -> tuple[Picture, ...]:
    """All pictures of one kind in a pass, by layer, then head, then sequence; none where no weights were kept."""
    found = (one for one in list_attentions(trace, one_pass) if one.kind.name == kind)
    return tuple(picture for one in found for picture in draw_heads(trace, one_pass, one))


def draw_heads(trace: Trace, one_pass: Pass, found: FoundAttention) -> Iterator[Picture]:
    """A picture for each head and each sequence of one attention whose weights were kept."""
    flow = read_pass(one_pass).flow
    record = flow.output(found.site.softmax)
    kept = split_heads(record.preview, record.shape, found.heads)
    if kept is None or flow.steps[found.site.softmax].settings.get("dim", -1) not in (-1, len(record.shape) - 1):
        return
    blocks, heads = kept
    for head in range(heads):
        for sequence, block in enumerate(blocks):
            if head >= len(block):
                continue
            weights = block[head]
            queries, keys = name_axes(trace, one_pass, found, sequence, (len(weights), len(weights[0])))
            yield Picture(
                kind=found.kind,
                layer=found.layer,
                head=head,
                sequence=sequence,
                queries=queries,
                keys=keys,
                weights=weights,
                hidden=mark_cells(flow, found.site, sequence, head, heads, weights),
                entropy=mean_entropy(weights, queries),
                nth=found.nth,
            )


Block = tuple[tuple[tuple[float, ...], ...], ...]
"""The squares of one sequence, head by head."""


def split_heads(
    preview: Preview | None, shape: tuple[int, ...], heads: int | None
) -> tuple[tuple[Block, ...], int] | None:
    """The kept squares by sequence and head, and how many heads there are at most; None where none were kept."""
    if preview is None or len(preview.shape) < 2 or any(preview.start) or preview.shape[-2:] != shape[-2:]:
        return None
    values = np.array([float(value) for value in preview.values]).reshape(preview.shape)
    rank = len(preview.shape)
    if rank == 2:
        values = values[None, None]
    elif rank == 3:
        count = heads if heads and shape[0] % heads == 0 else shape[0]
        values = values[: len(values) - len(values) % count] if len(values) >= count else values
        values = values.reshape(-1, min(count, len(values)), *values.shape[-2:])
    elif rank > 4:
        values = values.reshape(values.shape[0], -1, *values.shape[-2:])
    if not values.size:
        return None
    blocks = tuple(tuple(tuple(map(tuple, square)) for square in sequence) for sequence in values.tolist())
    return blocks, values.shape[1]


def mark_cells(
    flow: Flow, site: Site, sequence: int, head: int, heads: int, weights: tuple[tuple[float, ...], ...]
) -> Cells:
    """Which cells are hidden: by the kept cells of the mask, else by what the recorded steps prove of it."""
    rows, columns = len(weights), len(weights[0])
    known = find_cells(flow, site, sequence, head, heads)
    if known:
        return tuple(tuple(is_hidden(known, row, column) for column in range(columns)) for row in range(rows))
    squares = read_squares(flow, site, keep_hiding(flow))
    if squares is None or squares.shape[-2:] != (rows, columns):
        return ((False,) * columns,) * rows
    place = {1: 0, heads: head}.get(len(squares), min(sequence * heads + head, len(squares) - 1))
    return tuple(tuple(bool(cell <= LOW) for cell in row) for row in mark_hidden(squares)[place])


def find_cells(flow: Flow, site: Site, sequence: int, head: int, heads: int) -> tuple[str, ...]:
    """The cells of the mask that an attention read for one sequence; none where none were kept."""
    facts = collect_facts(flow)
    for part in read_scored(flow, site.scored):
        if part.kind != "mask" or part.operand is None:
            continue
        record = settle(flow, part.operand, facts).record
        mask = record.mask or facts.get(record.source or "")
        if mask is not None and mask.cells:
            count = len(mask.cells)
            place = sequence * heads + head if count % heads == 0 and count > heads else sequence
            return mask.cells[place % count]
    return ()


def is_hidden(cells: tuple[str, ...], row: int, column: int) -> bool:
    """Whether a mask hides a cell; a mask with a single row speaks for all of them, and no mask hides any."""
    line = cells[row] if len(cells) > row else cells[0] if cells else ""
    return column < len(line) and line[column] != VISIBLE
