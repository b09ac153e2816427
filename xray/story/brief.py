"""Attention at inference beside the detailed training: the same rows, in one narrow column."""

from dataclasses import dataclass
from itertools import pairwise

from xray.story.canvas import Canvas
from xray.story.column import Column
from xray.story.labels import mask_shape
from xray.story.layout import Box
from xray.story.nodes import cached_shape, draw_node, fit_digits, fit_op
from xray.story.plan import Row, Stack
from xray.story.shapes import ShapeText

LANES = (("qkv", "", "LINEAR"), ("heads", "split_", "HEADS"), ("kt", "transpose_", ""))
"""The rows below the scores: what stands before "query", "key" and "value" in their steps, and their name."""

BRIEF = {
    "scores": ("scores", "SCORES", ("scale",)),
    "mask": ("mask", "MASK", ()),
    "softmax": ("softmax", "SOFTMAX", ("dropout",)),
    "values": ("weighted_sum", "WEIGHTS · V", ()),
    "concat": ("concat", "CONCAT", ()),
    "output": ("output", "LINEAR O", ()),
}
"""The rows above the keys: which step each shows, its name, and what else it stands for."""


def draw_brief(canvas: Canvas, column: Column, path: str, stack: Stack, crosses: bool) -> None:
    """The same rows at inference, in one narrow column; where keys and queries go other ways, beside each other."""
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
    grown = cached_shape(journey, path)
    ways = Ways(column, [], [])
    for row, prefix, label in LANES:
        if crosses or ways.keys or row == "kt" or (grown is not None and row == "heads"):
            draw_apart(canvas, ways, path, row, prefix, rows[row], crosses=crosses, grown=grown)
        else:
            boxes.append(
                draw_node(
                    canvas,
                    journey,
                    f"{path}.{prefix}query",
                    rows[row],
                    frame.brief,
                    width,
                    f"{label} Q, K, V",
                    surface="inference",
                    form="brief",
                    also=(f"{path}.{prefix}key", f"{path}.{prefix}value"),
                )
            )
    below = [box for box in boxes if box is not None]
    join_ways(canvas, ways, below[-1] if below else None, rows["scores"].bottom, crosses=crosses)
    join_brief(canvas, column, below)
    boxes = []
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
    last = f"{path}_add" if "norm" in rows else norm
    boxes.append(
        draw_node(
            canvas,
            journey,
            last,
            rows["add"],
            frame.brief,
            width,
            "ADD + NORM" if last == norm else "ADD",
            surface="inference",
            form="brief",
            also=(f"{path}_dropout",) if last != norm else (f"{path}_dropout", f"{path}_add"),
        )
    )
    join_brief(canvas, column, [box for box in boxes if box is not None])


def join_brief(canvas: Canvas, column: Column, boxes: list[Box]) -> None:
    for lower, upper in pairwise(boxes):
        draw_step(canvas, column.frame.brief, lower.top, upper.bottom)


BETWEEN = 5.0
"""How far the boxes of keys and queries stand apart."""


@dataclass(frozen=True)
class Ways:
    """The way of keys and values, left, and that of queries, right: their boxes from the bottom up."""

    column: Column
    keys: list[Box]
    queries: list[Box]

    @property
    def half(self) -> float:
        """How wide a box is."""
        return (self.column.frame.brief_right - self.column.frame.brief_left - BETWEEN) / 2

    @property
    def left(self) -> float:
        """Where keys and values stand."""
        return keys_lane(self.column)

    @property
    def right(self) -> float:
        """Where queries stand."""
        return self.column.frame.brief_right - self.half / 2


def keys_lane(column: Column) -> float:
    """Where keys and values stand at inference."""
    frame = column.frame
    return frame.brief_left + (frame.brief_right - frame.brief_left - BETWEEN) / 4


def draw_apart(
    canvas: Canvas, ways: Ways, path: str, row: str, prefix: str, place: Row, *, crosses: bool, grown: ShapeText | None
) -> None:
    """Keys and values beside queries, which are not turned over."""
    journey = ways.column.brief
    if journey is None:
        return
    shape = grown if row == "heads" else None
    lines = ("K, V", "+ CACHE") if shape is not None else ("K^T",) if row == "kt" else ("K, V",)
    also = () if row == "kt" else (f"{path}.{prefix}value",)
    origin = "encoder" if crosses else "inference"
    drawn = draw_half(canvas, ways, f"{path}.{prefix}key", place, ways.left, lines, origin, shape, also)
    ways.keys.extend(drawn)
    if row != "kt":
        ways.queries.extend(draw_half(canvas, ways, f"{path}.{prefix}query", place, ways.right, ("Q",), "inference"))


def draw_half(
    canvas: Canvas,
    ways: Ways,
    path: str,
    row: Row,
    x: float,
    names: tuple[str, ...],
    surface: str,
    shape: ShapeText | None = None,
    also: tuple[str, ...] = (),
) -> list[Box]:
    """A node half as wide as the column; none for a step that was not recorded."""
    journey = ways.column.brief
    shape = shape or (journey.output(path) if journey is not None else None)
    if journey is None or shape is None:
        return []
    box = Box(
        journey.identity(path),
        x,
        row.y,
        ways.half,
        row.height,
        (*(fit_op(canvas, name, "", ways.half - 4) for name in names), fit_digits(canvas, shape, ways.half - 5)),
        surface,
        outline="inference",
        kind=f"step inference {ways.column.side}",
        tooltip=ways.column.tip(journey, path),
        steps=journey.identities(path, *also),
    )
    return [canvas.add(box)]


def join_ways(canvas: Canvas, ways: Ways, below: Box | None, scores: float, *, crosses: bool) -> None:
    """Both ways from what stands below them to the scores; memory enters the way of keys from elsewhere."""
    for x, boxes, is_joined in ((ways.left, ways.keys, not crosses), (ways.right, ways.queries, True)):
        heights = [height for box in boxes for height in (box.bottom, box.top)]
        heights = [below.top, *heights] if below is not None and is_joined else heights[1:]
        heights.append(scores)
        for start, end in zip(heights[::2], heights[1::2], strict=True):
            draw_step(canvas, x, start, end)


def draw_step(canvas: Canvas, x: float, start: float, end: float) -> None:
    canvas.line((x, start), (x, end), role="inference_on_panel", dashed=True, width=1.6, head_size=0.5)
