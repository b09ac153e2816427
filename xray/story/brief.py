"""Attention at inference beside the detailed training: the same rows, in one narrow column."""

from itertools import pairwise

from xray.story.canvas import Canvas
from xray.story.column import Column
from xray.story.labels import add_label, mask_shape
from xray.story.layout import Box, Run
from xray.story.nodes import cached_shape, draw_node, held_shape
from xray.story.plan import NOTE, Row, Stack
from xray.story.shapes import ShapeText, digits

LANES = (
    ("qkv", "", "LINEAR"),
    ("heads", "split_", "HEADS"),
    ("rotate", "rotate_", "ROTATE Q, K"),
    ("cache", "cache_", "K, V + CACHE"),
    ("repeat", "repeat_", "REPEAT K, V"),
)
"""The rows below the scores: what stands before "query", "key" and "value" in their steps, and their name."""

BRIEF = {
    "scores": ("scores", "SCORES", ("scale",)),
    "bias": ("bias", "BIAS", ()),
    "mask": ("mask", "MASK", ()),
    "softmax": ("softmax", "SOFTMAX", ("dropout",)),
    "values": ("weighted_sum", "WEIGHTS · V", ()),
    "concat": ("concat", "CONCAT", ()),
    "output": ("output", "LINEAR O", ()),
}
"""The rows above the keys: which step each shows, its name, and what else it stands for."""


def draw_brief(canvas: Canvas, column: Column, path: str, stack: Stack, crosses: bool) -> None:
    """The same rows at inference, in one narrow column."""
    journey, frame, rows = column.brief, column.frame, stack.rows
    if journey is None:
        return
    width = frame.brief_right - frame.brief_left
    boxes: list[Box | None] = []
    if "input" in rows:
        shape = journey.input(journey.layer, "x")
        boxes.append(
            draw_node(
                canvas,
                journey,
                journey.layer,
                rows["input"],
                frame.brief,
                width,
                "INPUT",
                surface="inference",
                form="brief",
                shape=shape,
                outline="boundary",
            )
        )
    if "norm" in rows:
        boxes.append(
            draw_node(
                canvas,
                journey,
                f"{path}_norm",
                rows["norm"],
                frame.brief,
                width,
                "NORM",
                surface="inference",
                form="brief",
            )
        )
    for row, prefix, label in LANES:
        if row not in rows:
            continue
        grown = cached_shape(journey, path) if prefix == "split_" else None
        if row in ("cache", "repeat"):
            boxes.append(
                draw_node(
                    canvas,
                    journey,
                    f"{path}.{prefix}key",
                    rows[row],
                    frame.brief,
                    width,
                    label,
                    surface="encoder" if crosses else "inference",
                    form="brief",
                    also=(f"{path}.{prefix}value",),
                    shape=held_shape(journey, path, "key") if row == "cache" else None,
                )
            )
        elif crosses or grown is not None:
            upper, lower = halves(rows[row])
            query = draw_inline(canvas, column, f"{path}.{prefix}query", lower, "Q", "inference")
            origin = "encoder" if crosses else "inference"
            draw_inline(canvas, column, f"{path}.{prefix}key", upper, "K, V", origin, grown, (f"{path}.{prefix}value",))
            boxes.append(widen(query, rows[row]) if query is not None else None)
        else:
            boxes.append(
                draw_node(
                    canvas,
                    journey,
                    f"{path}.{prefix}query",
                    rows[row],
                    frame.brief,
                    width,
                    label if row == "rotate" else f"{label} Q, K, V",
                    surface="inference",
                    form="brief",
                    also=(f"{path}.{prefix}key", f"{path}.{prefix}value"),
                )
            )
    if "kt" in rows:
        boxes.append(
            draw_node(
                canvas,
                journey,
                f"{path}.transpose_key",
                rows["kt"],
                frame.brief,
                width,
                "TRANSPOSE K^T",
                surface="encoder" if crosses else "inference",
                form="brief",
                outline="inference" if crosses else None,
            )
        )
    for row, (part, label, others) in BRIEF.items():
        if row not in rows:
            continue
        mask = mask_shape(journey, path) if row == "mask" else None
        boxes.append(
            draw_node(
                canvas,
                journey,
                f"{path}.{part}",
                rows[row],
                frame.brief,
                width,
                label,
                surface="mask" if row == "mask" else "inference",
                form="brief",
                extra=mask.plain if mask else "",
                also=tuple(f"{path}.{other}" for other in others),
                outline="inference" if row == "mask" else None,
            )
        )
    norm = f"{path}_norm"
    last = f"{path}_add" if "norm" in rows or not journey.steps(norm) else norm
    boxes.append(
        draw_node(
            canvas,
            journey,
            last,
            rows["add"],
            frame.brief,
            width,
            add_label(journey, norm if last == norm else "", short=True),
            surface="inference",
            form="brief",
            also=(f"{path}_dropout",) if last != norm else (f"{path}_dropout", f"{path}_add"),
        )
    )
    join_brief(canvas, column, [box for box in boxes if box is not None])


def join_brief(canvas: Canvas, column: Column, boxes: list[Box]) -> None:
    for lower, upper in pairwise(boxes):
        canvas.line(
            (column.frame.brief, lower.top),
            (column.frame.brief, upper.bottom),
            role="inference_on_panel",
            dashed=True,
            width=1.6,
            head_size=0.5,
        )


def halves(row: Row) -> tuple[Row, Row]:
    """The upper and the lower half of a row, a little apart."""
    height = row.height / 2 - 2
    return Row(row.y + row.height / 4 + 1, height), Row(row.y - row.height / 4 - 1, height)


def widen(box: Box, row: Row) -> Box:
    """A stand-in as high as its row, for lines to start and end at."""
    return Box(box.id, box.x, row.y, box.width, row.height, (), box.on)


def draw_inline(
    canvas: Canvas,
    column: Column,
    path: str,
    row: Row,
    short: str,
    surface: str,
    shape: ShapeText | None = None,
    also: tuple[str, ...] = (),
) -> Box | None:
    """A low node with its name before the shape."""
    journey, frame = column.brief, column.frame
    shape = shape or (journey.output(path) if journey is not None else None)
    if journey is None or shape is None:
        return None
    width = frame.brief_right - frame.brief_left
    line = (Run(short + "  ", NOTE, "text", "semibold"), *inline_digits(canvas, shape, short, width))
    return canvas.add(
        Box(
            journey.identity(path),
            frame.brief,
            row.y,
            width,
            row.height,
            (line,),
            surface,
            outline="inference",
            kind=f"step inference {column.side}",
            tooltip=column.tip(journey, path),
            steps=journey.identities(path, *also),
        )
    )


def inline_digits(canvas: Canvas, shape: ShapeText, short: str, width: float) -> tuple[Run, ...]:
    room = width - canvas.text_width(short + "  ", NOTE, "semibold") - 8
    for size in range(15, 10, -1):
        line = digits(shape, size)
        if sum(int(canvas.measure(run.text, run.size, run.weight) + 1) for run in line) <= room:
            return line
    return digits(shape, 10)
