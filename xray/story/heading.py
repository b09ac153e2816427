"""The upper left: title, sizes, what differs from the default, the reading order, and the legend."""

from dataclasses import fields

from xray.config import SPECIAL_TOKENS, UNK, ModelConfig
from xray.story.canvas import Canvas, words
from xray.story.compare.marks import Marks
from xray.story.facts.savings import count_savings
from xray.story.journey import SIDES, Tale
from xray.story.layout import Cells, Line, Run, block_height, line_width
from xray.story.plan import LABEL, NOTE
from xray.story.reading_order import reading_lines
from xray.story.shapes import HUES
from xray.story.sides import draw_station
from xray.story.wording import plural, wrap, wrap_words

CREDIT = "after the X-Ray Transformer infographic by Javier Ideami, losslandscape.com"
TITLE = 78
"""How large the title may be."""

UNKNOWN = SPECIAL_TOKENS[UNK]
ENTRY = 17.5
BESIDE_TITLE = 176.0
"""What is kept free right below the title for the remark on back-propagation."""


def draw_title(canvas: Canvas, tale: Tale, left: float, right: float, top: float, beside: tuple[Line, ...]) -> float:
    """Title, credit, sizes and settings, with a remark beside the credit; gives the height that is left below."""
    width = right - left
    first, second = "X-RAY", "TRANSFORMER"
    whole = canvas.text_width(first + " " + second, 100, "black") / 100
    size = int(min(TITLE, width / whole))
    canvas.note(left - 2, top, (words(first, size, "text", "black"),))
    start = left - 2 + canvas.text_width(first + " ", size, "black")
    canvas.note(start, top, (words(second, size, "accent:title", "black"),))
    y = top - size * 1.12 - 4
    if beside:
        canvas.note(right + 12, y, beside, align="right")
    width -= BESIDE_TITLE
    lines: list[Line] = [words(line, LABEL) for line in wrap(subtitle(tale), LABEL, width, canvas.measure)]
    lines += [words(line, NOTE, "quiet") for line in wrap(CREDIT, NOTE, width, canvas.measure)]
    box = canvas.note(left, y, tuple(lines))
    y = box.bottom - 10
    for line in size_lines(canvas, tale, right - left):
        y = canvas.note(left, y, (line,)).bottom - 2
    notes = remarks(tale)
    if notes:
        wrapped = wrap_words(" ".join(notes).split(" "), LABEL - 1, width - 8, canvas.measure, 3, "semibold")
        y = canvas.note(
            left, y - 4, tuple(words(line, LABEL - 1, "accent:warning", "semibold") for line in wrapped)
        ).bottom
    return y


def subtitle(tale: Tale) -> str:
    forward = "one forward pass and its loss" if tale.has_loss else "one forward pass"
    step = "one training step" if tale.goes_back else forward
    parts = {"training": step, "inference": "one greedy answer"}
    return f"Every tensor of {' and '.join(parts[phase] for phase in tale.phases)}, recorded by hooks."


def size_lines(canvas: Canvas, tale: Tale, width: float) -> list[Line]:
    """The named sizes, as many on a line as fit."""
    sizes = tale.trace.sizes
    pairs = [("batch", "batch", str(sizes.get("batch", "")))]
    pairs.append(("heads", "heads", str(sizes.get("heads", ""))))
    pairs.append(("layers", "other", f"{sizes.get('encoder_layers', '?')} + {sizes.get('decoder_layers', '?')}"))
    for name in ("d_model", "d_k", "d_ff", "src_vocab", "tgt_vocab"):
        pairs.append((name, name, f"{sizes[name]:,}" if name in sizes else ""))
    if tale.params:
        pairs.append(("parameters", "other", f"{tale.params:,}"))
    lines: list[Line] = []
    for name, axis, value in pairs:
        if not value:
            continue
        piece = (Run(f"{name} ", LABEL, "text"), Run(value + "  ", LABEL + 1, f"axis:{axis}", "bold"))
        if lines and line_width((*lines[-1], *piece), canvas.measure) <= width:
            lines[-1] = (*lines[-1], *piece)
        else:
            lines.append(piece)
    return lines


def remarks(tale: Tale) -> list[str]:
    """What a reader must know: untrained weights, and every setting that is not the default."""
    config = tale.trace.config
    found = []
    if config.get("trained") is False:
        found.append("Untrained weights: every shape is exact, the words mean nothing yet.")
    if any(UNKNOWN in row for one in tale.trace.passes for rows in one.tokens.values() for row in rows):
        found.append(f"{UNKNOWN} stands for a word that it does not know.")
    if "training" in tale.phases:
        found += tell_batch(tale)
    defaults = {entry.name: entry.default for entry in fields(ModelConfig)}
    says: dict[str, dict[object, str]] = {
        "norm": {"before": "Layer norm stands before each sublayer, with a last one at the end."},
        "cross_mask": {"none": "Cross-attention has no mask: padding of the question is seen."},
        "sharing": {
            "decoder": "The decoder's embedding and the output layer share their weights.",
            "all": "Both embeddings and the output layer share their weights.",
        },
        "scale_embeddings": {False: "Embeddings are not scaled by √d_model."},
        "mask_value": {"-inf": "Hidden scores become −infinity."},
    }
    for name, sentences in says.items():
        value = config.get(name, defaults[name])
        if value != defaults[name] and value in sentences:
            found.append(sentences[value])
    if config.get("kv_cache"):
        found.append("Key-value cache: each turn computes one new row; the question's keys and values once.")
    saved = count_savings(tale.trace)
    if saved is not None:
        found.append(saved.sentence)
    return found


def tell_batch(tale: Tale) -> list[str]:
    """What batches it was trained with, where they are not what is shown."""
    config, shown = tale.trace.config, plural(tale.trace.sizes.get("batch", 0), "pair")
    pairs, tokens = config.get("batch"), config.get("batch_tokens")
    if tokens:
        return [f"Trained with batches of {tokens:,} tokens: {shown} here."]
    if isinstance(pairs, int) and pairs != tale.trace.sizes.get("batch"):
        return [f"Trained with batches of up to {pairs:,} pairs: {shown} here."]
    return []


def draw_reading(canvas: Canvas, tale: Tale, left: float, top: float, width: float) -> float:
    """Nine lines, each with its station."""
    canvas.note(left, top, (words("READ IT FROM THE BOTTOM UP", LABEL - 1, "accent:station", "bold"),))
    y = top - 24
    for number, text in reading_lines(tale):
        block = tuple(words(line, NOTE) for line in wrap(text, NOTE, width - 26, canvas.measure, 2))
        draw_station(canvas, left + 9, y - block_height(block) / 2 + 1, number, 8.5, "reading")
        canvas.note(left + 25, y, block)
        y -= block_height(block) + 7
    return y


def reading_width(canvas: Canvas, tale: Tale) -> float:
    """How wide the reading order is where every sentence has a line of its own."""
    return max(canvas.text_width(text, NOTE) for _, text in reading_lines(tale)) + 28


def draw_legend(canvas: Canvas, tale: Tale, left: float, top: float, width: float, marks: Marks | None = None) -> float:
    """What colours and cells mean; only what occurs."""
    entries: list[tuple[str, str, str]] = [("surface", side, f"made by the {side}") for side in SIDES]
    entries.append(("surface", "mask", "a mask is applied"))
    for phase in tale.phases:
        entries.append(("line", phase, f"{phase} path"))
    entries.append(("outline", "boundary", "enters or leaves a layer"))
    if marks is not None and marks.steps:
        entries.append(("outline", marks.role, "changed" if marks.role == "change" else "failed"))
    letters = [(".", "may be read"), ("p", "padding, hidden"), ("f", "the future, hidden")]
    if has_cells(tale, "b"):
        letters.append(("b", "padding and future"))
    before = len(canvas.panels)
    y = top - 30
    canvas.note(left + 14, top - 9, (words("ORIGIN AND PATH", LABEL - 1, "text", "bold"),), "card")
    for place, (kind, role, text) in enumerate(entries):
        row_y = y - place * ENTRY
        swatch(canvas, kind, role, left + 14, row_y)
        canvas.note(left + 48, row_y, (words(text, NOTE),), "card")
    x = left + 48 + max(canvas.text_width(text, NOTE) for _, _, text in entries) + 22
    canvas.note(x, top - 9, (words("ROW = QUERY, COLUMN = KEY", LABEL - 1, "text", "bold"),), "card")
    for place, (letter, text) in enumerate(letters):
        row_y = y - place * ENTRY
        canvas.cells.append(Cells(f"legend_{letter}", x, row_y, 12, ((letter,),), "legend"))
        canvas.note(x + 20, row_y, (words(text, NOTE),), "card")
    axes = y - len(letters) * ENTRY - 2
    notes: list[Line] = [(Run("1", LABEL, "axis:other", "bold"), Run("  in a mask: broadcast", NOTE))]
    if "inference" in tale.phases:
        notes.append((Run("t", LABEL, "axis:tgt_len", "bold"), Run("  the turn: 1, 2, 3 …", NOTE)))
    canvas.note(x, axes, tuple(notes), "card")
    return close_legend(canvas, tale, left, top, width, min(y - len(entries) * ENTRY, axes - 32), before)


def close_legend(
    canvas: Canvas, tale: Tale, left: float, top: float, width: float, bottom: float, before: int
) -> float:
    """The axis words at its foot, and the card behind it all."""
    bottom = draw_axis_hues(canvas, tale, left + 14, bottom - 4, width - 28) - 6
    canvas.panel(left, bottom, left + width, top, "card", 12, "card", 1.0)
    canvas.panels.insert(before, canvas.panels.pop())
    return bottom


def draw_axis_hues(canvas: Canvas, tale: Tale, left: float, top: float, width: float) -> float:
    """The axis words that occur, each in the hue that its digits have everywhere; gives the height left below."""
    seen = {axis for step in tale.trace.steps for record in step.outputs for axis in record.axes}
    runs = tuple(Run(name + "   ", NOTE, f"axis:{name}", "semibold") for name in HUES if name in seen)
    if not runs:
        return top
    half = (len(runs) + 1) // 2
    lines = (runs,) if line_width(runs, canvas.measure) <= width else (runs[:half], runs[half:])
    return canvas.note(left, top, lines, "card").bottom


def swatch(canvas: Canvas, kind: str, role: str, left: float, top: float) -> None:
    middle = top - 6.5
    if kind == "line":
        canvas.line(
            (left, middle),
            (left + 26, middle),
            role=role,
            width=3,
            dashed=role == "inference",
            kind="legend",
            head_size=0.5,
        )
    elif kind == "outline":
        canvas.panel(left + 1, middle - 5, left + 25, middle + 5, "card", 4, role, 2.2)
    else:
        canvas.panel(left, middle - 6, left + 26, middle + 6, role, 4)


def has_cells(tale: Tale, letter: str) -> bool:
    masks = {record.mask for step in tale.trace.steps for record in step.outputs if record.mask is not None}
    return any(letter in row for mask in masks for matrix in mask.cells or () for row in matrix)
