"""One kind of attention on a sheet: every layer and head side by side, or a single one large."""

from collections.abc import Sequence

from xray.story.canvas import Canvas, words
from xray.story.layout import Cells, Layout, Measure
from xray.story.regions.heat_maps import draw_column_words
from xray.story.weights.picture import PADDING, Picture
from xray.story.wording import fit_text, spell_share

MARGIN, GAP = 26.0, 24.0
WORD, WORD_WIDTH = 8, 60.0
LARGEST, SMALLEST = 26.0, 11.0


def compose_sheet(pictures: Sequence[Picture], measure: Measure, subtitle: str = "") -> Layout:
    """The pictures in rows by layer, words on both axes, the entropy over each; what the mask hides is quiet."""
    canvas = Canvas(measure)
    first = pictures[0]
    cell = LARGEST if len(pictures) == 1 else max(SMALLEST, min(16.0, 150.0 / max(1, len(first.keys))))
    label = max(measure(shorten(word, measure), WORD, "regular") for word in first.queries) + 8
    width, height = label + cell * len(first.keys), cell * len(first.weights)
    layers = sorted({(picture.layer, picture.nth) for picture in pictures})
    per_layer = max(sum((picture.layer, picture.nth) == layer for picture in pictures) for layer in layers)
    below = 12.0 * steps_down(first.keys, cell, measure) + 16
    row = 20 + height + below + GAP
    total = MARGIN * 2 + per_layer * width + (per_layer - 1) * GAP
    total = max(total, MARGIN * 2 + measure(subtitle, WORD + 2, "regular") + 10, 360)
    top = MARGIN + 58
    full = top + len(layers) * row + MARGIN - GAP
    title = f"{first.kind.title}, before dropout"
    canvas.note(MARGIN, full - MARGIN, (words(title, 20, "accent:title", "black"), words(subtitle, WORD + 2, "quiet")))
    for place, layer in enumerate(layers):
        left, y = MARGIN, full - top - place * row
        for picture in (one for one in pictures if (one.layer, one.nth) == layer):
            draw_one(canvas, picture, left, y, label, cell)
            left += width + GAP
    return canvas.finish(total, full, title, describe(pictures))


def draw_one(canvas: Canvas, picture: Picture, left: float, top: float, label: float, cell: float) -> None:
    """One head: a line over it, words beside its rows and under its columns."""
    said = f"{picture.place}   {picture.entropy:.2f} bits"
    canvas.note(left, top, (words(said, WORD + 1, "text", "semibold"),))
    x, y = left + label, top - 18
    cells = tuple(
        tuple(None if hidden else weight for weight, hidden in zip(row, hides, strict=True))
        for row, hides in zip(picture.weights, picture.hidden, strict=True)
    )
    name = f"attention_{picture.kind.name}_{picture.layer}_{picture.head}_{picture.sequence}_{picture.nth}"
    canvas.cells.append(Cells(name, x, y, cell, cells, "weights", f"{said}\n{describe_rows(picture)}"))
    for place, word in enumerate(picture.queries):
        baseline = y - cell * (place + 0.5) + 5
        canvas.note(x - 4, baseline, (words(shorten(word, canvas.measure), WORD),), align="right")
    listed = [shorten(word, canvas.measure) for word in picture.keys]
    draw_column_words(canvas, listed, x, y - cell * len(picture.weights), cell)


def shorten(word: str, measure: Measure) -> str:
    return fit_text(word, WORD, WORD_WIDTH, measure)


def steps_down(keys: Sequence[str], cell: float, measure: Measure) -> int:
    """On how many lines the words under the columns will stand."""
    ends: list[float] = []
    for place, word in enumerate(keys):
        middle, width = cell * (place + 0.5), measure(shorten(word, measure), WORD, "regular") + 2
        start = middle - min(width / 2, 8)
        level = next((level for level, end in enumerate(ends) if end + 4 < start), len(ends))
        if level == len(ends):
            ends.append(0.0)
        ends[level] = start + width
    return len(ends)


def describe_rows(picture: Picture) -> str:
    """For each word whom it looks at most, as a tooltip."""
    lines = []
    for query, row in zip(picture.queries, picture.weights, strict=False):
        if query == PADDING:
            continue
        best = row.index(max(row))
        key = picture.keys[best] if best < len(picture.keys) else f"key {best + 1}"
        lines.append(f"{query}: {spell_share(row[best])} on {key}")
    return "\n".join(lines)


def describe(pictures: Sequence[Picture]) -> str:
    """The sheet in one sentence, for those who hear it."""
    first = pictures[0]
    return (
        f"{first.kind.title}: {len(pictures)} tables of weights. Rows are the words {' '.join(first.queries)}, "
        f"columns the words {' '.join(first.keys)}."
    )
