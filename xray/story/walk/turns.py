"""The turns of greedy decoding side by side: what the decoder read, how large its squares were, which word it chose."""

from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.story.walk.parts import find_parts


@dataclass(frozen=True)
class Turn:
    """One turn: the words of the answer so far, the shapes that grow with them, and the word that comes next.

    `is_cached` says that only the newest of these words is read, because a cache holds what is needed of the others.
    `mask` is the one that self-attention reads.
    """

    number: int
    words: tuple[str, ...]
    chosen: str
    tgt_len: int
    mask: TensorRecord | None
    scores: TensorRecord | None
    cross_scores: TensorRecord | None
    is_cached: bool = False


def list_turns(trace: Trace) -> tuple[Turn, ...]:
    """The decode passes of a trace as turns, in order."""
    return tuple(describe_turn(one_pass) for one_pass in trace.passes_of("decode"))


def describe_turn(one_pass: Pass) -> Turn:
    """A decode pass in one line."""
    words, steps = first_row(one_pass, "decoder_input"), find_parts(one_pass).steps
    layer = "decoder.layers.0"
    mask = steps.get(f"{layer}.self_attention.mask")
    made = steps.get("tgt_mask.combine")
    entry = steps.get("decoder.embedding.words")
    read = entry.inputs[0].shape[-1] if entry is not None and entry.inputs and entry.inputs[0].shape else 0
    hides = next((record for record in mask.inputs if record.role == "mask"), None) if mask is not None else None
    return Turn(
        number=one_pass.number,
        words=words,
        chosen=" ".join(first_row(one_pass, "new")),
        tgt_len=one_pass.sizes.get("tgt_len", len(words)),
        mask=hides or first_output(made),
        scores=first_output(steps.get(f"{layer}.self_attention.scores")),
        cross_scores=first_output(steps.get(f"{layer}.cross_attention.scores")),
        is_cached=0 < read < len(words),
    )


def unlike_turns(trace: Trace) -> tuple[Pass, ...]:
    """The decode passes that did other operations than the first one did; their shapes are meant to grow."""
    passes = trace.passes_of("decode")
    return tuple(one_pass for one_pass in passes if list_operations(one_pass) != list_operations(passes[0]))


def list_operations(one_pass: Pass) -> tuple[tuple[str, str], ...]:
    """Which operation ran at which place, shapes left out."""
    return tuple((step.id, step.op) for step in one_pass.steps)


def masks_grow(turns: tuple[Turn, ...]) -> bool:
    """Whether every turn's mask is the first corner of the last one's, so that one drawing shows them all."""
    squares = [find_square(turn.mask) for turn in turns]
    last = squares[-1] if squares else ()
    return bool(last) and all(
        square and square == tuple(row[: len(square)] for row in last[: len(square)]) for square in squares
    )


def find_square(mask: TensorRecord | None) -> tuple[str, ...]:
    """The cells of a mask that is a single matrix; none for any other."""
    cells = mask.mask.cells if mask is not None and mask.mask is not None else None
    return cells[0] if cells is not None and len(cells) == 1 else ()


def first_row(one_pass: Pass, name: str) -> tuple[str, ...]:
    """The words of the first sequence under a name; none where there are none."""
    rows = one_pass.tokens.get(name, ())
    return rows[0] if rows else ()


def first_output(step: Step | None) -> TensorRecord | None:
    """What a step put out."""
    return next(iter(step.outputs), None) if step is not None else None


def list_candidates(one_pass: Pass) -> tuple[tuple[str, float], ...]:
    """The words that might have come next with their probabilities, the likeliest first; none where none were noted."""
    words = first_row(one_pass, "candidates")
    made = first_output(find_parts(one_pass).steps.get("next_word.softmax"))
    preview = made.preview if made is not None else None
    chances = sorted((float(value) for value in preview.values), reverse=True) if preview is not None else []
    return tuple(zip(words, chances, strict=False))
