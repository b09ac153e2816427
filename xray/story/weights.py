"""Attention weights as pictures: for each attention, layer, head and sequence who looks at whom, in words."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from typing import Literal

from xray.config import PAD, SPECIAL_TOKENS
from xray.ir.records import VISIBLE, Preview
from xray.ir.trace import Pass, Trace

PADDING = SPECIAL_TOKENS[PAD]
Kind = Literal["encoder", "decoder", "cross"]
KINDS: dict[Kind, tuple[str, str]] = {
    "encoder": ("encoder", "self_attention"),
    "decoder": ("decoder", "self_attention"),
    "cross": ("decoder", "cross_attention"),
}
"""For each kind of attention the side whose layers hold it, and its name in them."""


@dataclass(frozen=True)
class Picture:
    """One head's weights over one sequence, before dropout: a row for each query, a column for each key.

    `hidden` marks the cells that the mask hides; `entropy` is the mean over the rows of real words, in bits: 0 where
    every query looks at one key only, log2 of the keys where it looks at all alike.
    """

    kind: Kind
    layer: int
    head: int
    sequence: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    hidden: tuple[tuple[bool, ...], ...]
    entropy: float


def read_pictures(trace: Trace, one_pass: Pass, kind: Kind) -> tuple[Picture, ...]:
    """All pictures of one kind in a pass, by layer, then head, then sequence; none where no weights were kept."""
    return tuple(iterate_pictures(trace, one_pass, kind))


def iterate_pictures(trace: Trace, one_pass: Pass, kind: Kind) -> Iterator[Picture]:
    side, name = KINDS[kind]
    layers = sorted(
        {step.layer for step in one_pass.steps if step.layer is not None and step.path.startswith(f"{side}.")}
    )
    for layer in layers:
        path = f"{side}.layers.{layer}.{name}"
        step = one_pass.by_id.get(f"{path}.softmax#0")
        preview = step.outputs[0].preview if step is not None and step.outputs else None
        if preview is None or len(preview.shape) != 4:
            continue
        for head in range(preview.shape[1]):
            for sequence in range(preview.shape[0]):
                yield make_picture(trace, one_pass, kind, layer, head, sequence, preview)


def make_picture(
    trace: Trace, one_pass: Pass, kind: Kind, layer: int, head: int, sequence: int, preview: Preview
) -> Picture:
    side, name = KINDS[kind]
    weights = tuple(tuple(float(value) for value in row) for row in preview.rows(sequence, head))
    queries, keys = name_axes(trace, one_pass, kind, sequence)
    cells = mask_cells(one_pass, f"{side}.layers.{layer}.{name}.mask", sequence)
    hidden = tuple(
        tuple(is_hidden(cells, row, column) for column in range(len(values))) for row, values in enumerate(weights)
    )
    queries = queries[-len(weights) :] if len(queries) > len(weights) else queries
    return Picture(
        kind=kind,
        layer=layer,
        head=head,
        sequence=sequence,
        queries=queries,
        keys=keys,
        weights=weights,
        hidden=hidden,
        entropy=mean_entropy(weights, queries),
    )


def name_axes(trace: Trace, one_pass: Pass, kind: Kind, sequence: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that ask and the words that are looked at."""
    questions = one_pass.tokens.get("src") or next((one.tokens["src"] for one in trace.passes_of("encode")), ())
    question = questions[sequence] if sequence < len(questions) else ()
    answers = one_pass.tokens.get("decoder_input", ())
    answer = answers[sequence] if sequence < len(answers) else ()
    return {"encoder": (question, question), "decoder": (answer, answer), "cross": (answer, question)}[kind]


def mask_cells(one_pass: Pass, path: str, sequence: int) -> tuple[str, ...]:
    """The cells of the mask that an attention read for one sequence; none where it read no mask."""
    step = one_pass.by_id.get(f"{path}#0")
    facts = next((record.mask for record in step.inputs if record.mask is not None), None) if step is not None else None
    if facts is None or not facts.cells:
        return ()
    return facts.cells[sequence % len(facts.cells)]


def is_hidden(cells: tuple[str, ...], row: int, column: int) -> bool:
    """Whether a mask hides a cell; a mask with a single row speaks for all of them."""
    if not cells:
        return False
    line = cells[row] if len(cells) > row else cells[0]
    return column < len(line) and line[column] != VISIBLE


def mean_entropy(weights: tuple[tuple[float, ...], ...], queries: tuple[str, ...]) -> float:
    """How widely the queries look, in bits, meant over the rows whose word is no padding."""
    words = queries if len(queries) == len(weights) else ("",) * len(weights)
    rows = [row for row, word in zip(weights, words, strict=True) if word != PADDING] or list(weights)
    return sum(row_entropy(row) for row in rows) / max(1, len(rows))


def row_entropy(row: tuple[float, ...]) -> float:
    """The entropy of one query's weights, in bits."""
    return -sum(weight * log2(weight) for weight in row if weight > 0) + 0.0
