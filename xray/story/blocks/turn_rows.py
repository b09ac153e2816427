"""A generation loop as rows: what each turn is fed, how far it looks back, what comes out, which token it chose."""

from dataclasses import dataclass

from xray.ir.records import Preview, TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.blocks.pass_groups import PassGroup, read_sizes

MOST_IDS = 6
MOST_SEQUENCES = 3


@dataclass(frozen=True)
class TurnRow:
    """One pass of a group; what the record does not show is empty.

    `attends` has queries and keys of each kind of attention, "1 × 9", and how many of the keys came from a cache.
    """

    place: int
    fed: str
    attends: str
    cached: str
    output: str
    chosen: str


def list_turns(group: PassGroup) -> tuple[TurnRow, ...]:
    """A row for each pass of a group."""
    rows = []
    for number, one_pass in enumerate(group.passes):
        behind = group.passes[number + 1] if number + 1 < len(group.passes) else None
        root = root_of(one_pass)
        lengths = attention_lengths(one_pass)
        rows.append(
            TurnRow(
                place=group.places[number],
                fed=describe_fed(one_pass, root),
                attends=", ".join(f"{queries}×{keys}" for queries, keys in lengths),
                cached=describe_cached(lengths),
                output=read_sizes(root.outputs[:1]).plain if root is not None and root.outputs else "",
                chosen=describe_chosen(one_pass, behind),
            )
        )
    return tuple(rows)


def root_of(one_pass: Pass) -> Step | None:
    """The outermost block, or the first step where there is none."""
    return next((step for step in one_pass.steps if step.id in one_pass.blocks), next(iter(one_pass.steps), None))


def describe_fed(one_pass: Pass, root: Step | None) -> str:
    words = one_pass.tokens.get("decoder_input") or one_pass.tokens.get("src")
    if words:
        return " ".join(words[0][-MOST_IDS:])
    pieces = one_pass.tokens.get("input")
    if pieces:
        return ("…" if len(pieces[0]) > MOST_IDS else "") + "".join(pieces[0][-MOST_IDS:])
    if root is None or not root.inputs:
        return ""
    ids = next((record for record in root.inputs if record.role == "ids"), root.inputs[0])
    values = read_values(ids.preview)
    shape = read_sizes([ids]).plain
    return f"{shape}: {values}" if values else shape


def read_values(preview: Preview | None) -> str:
    """The last values of the first sequences of a preview, as many as fit a cell."""
    if preview is None or not preview.values or len(preview.shape) > 2:
        return ""
    rows = preview.rows()
    each = MOST_IDS // min(len(rows), MOST_SEQUENCES)
    told = [" ".join(("…",) * (len(row) > each) + tuple(map(str, row[-each:]))) for row in rows[:MOST_SEQUENCES]]
    return " / ".join(told) + (" / …" if len(rows) > MOST_SEQUENCES else "")


def attention_lengths(one_pass: Pass) -> tuple[tuple[int, int], ...]:
    """Queries and keys of every kind of attention in a pass; layers of one kind have paths that differ in numbers."""
    found: dict[str, tuple[int, int]] = {}
    for step in one_pass.leaves:
        if step.op == "softmax" and step.outputs and len(step.outputs[0].shape) > 2:
            queries, keys = step.outputs[0].shape[-2:]
            found.setdefault("".join(letter for letter in step.path if not letter.isdigit()), (queries, keys))
    return tuple(found.values())


def describe_cached(lengths: tuple[tuple[int, int], ...]) -> str:
    """How many keys of the first attention were not computed in this pass."""
    if not lengths:
        return ""
    queries, keys = lengths[0]
    return str(keys - queries) if keys >= queries else ""


def describe_chosen(one_pass: Pass, behind: Pass | None) -> str:
    """The token that a turn chose: as its pass tells, as it was picked, or as the next pass was fed."""
    words = one_pass.tokens.get("new")
    if words:
        return " ".join(row[-1] for row in words if row)
    picked = [step for step in one_pass.leaves if step.op in ("argmax", "multinomial") and step.outputs]
    found = last_value(picked[-1].outputs[0]) if picked else ""
    root = root_of(behind) if behind is not None else None
    if not found and root is not None:
        ids = next((record for record in root.inputs if record.role == "ids"), None)
        found = last_value(ids) if ids is not None else ""
    return found


def last_value(record: TensorRecord) -> str:
    """The last value of each sequence, or each of a row of values."""
    preview = record.preview
    if preview is None or not preview.values or len(preview.shape) > 2:
        return ""
    rows = preview.rows()
    last = [row[-1] for row in rows] if len(preview.shape) == 2 else list(rows[0])
    return " / ".join(map(str, last[:MOST_IDS])) + (" / …" if len(last) > MOST_IDS else "")
