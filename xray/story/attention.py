"""Multi-head attention, drawn from the linear layers at the bottom to the residual sum at the top."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from xray.story.brief import draw_brief
from xray.story.canvas import Canvas
from xray.story.column import Column
from xray.story.labels import mask_remark, scores_label, softmax_label
from xray.story.layout import Box
from xray.story.nodes import cached_shape, draw_node
from xray.story.plan import Stack

MOST_ARROWS = 8
LANES = (("q", "query"), ("k", "key"), ("v", "value"))

Put = Callable[..., None]
"""Draws a node and keeps it: its key, row, step, label, centre and width, and what `draw_node` takes besides."""


def draw_attention(canvas: Canvas, column: Column, name: str, stack: Stack) -> Box:
    """All nodes of one attention sublayer and the lines between them; gives the box that its result leaves from."""
    path = f"{column.main.layer}.{name}"
    crosses = name == "cross_attention"
    nodes = draw_nodes(canvas, column, path, stack, crosses)
    join_nodes(canvas, column, nodes, stack)
    if column.brief is not None:
        draw_brief(canvas, column, path, stack, crosses)
    return nodes["add"]


def draw_nodes(canvas: Canvas, column: Column, path: str, stack: Stack, crosses: bool) -> dict[str, Box]:
    frame, rows, journey, own = column.frame, stack.rows, column.main, column.side
    wide = frame.detail_right - frame.detail_left
    nodes: dict[str, Box] = {}

    def put(key: str, row: str, step: str, label: str, x: float, width: float, **options: object) -> None:
        if row not in rows:
            return
        options = {"surface": own, **options}
        box = draw_node(canvas, journey, step, rows[row], x, width, label, **options)  # type: ignore[arg-type]
        if box is not None:
            nodes[key] = box

    entering = journey.input(journey.layer, "x") or journey.output(journey.layer)
    put("input", "input", journey.layer, "LAYER INPUT", frame.centre, wide * 0.72, shape=entering, outline="boundary")
    norm = f"{path}_norm"
    put("norm", "norm", norm, "LAYER NORM", frame.centre, wide * 0.72, extra=column.params(norm))
    for lane, x in zip(LANES, (frame.query, frame.centre, frame.value), strict=True):
        draw_lane(column, put, path, Lane(*lane, x), crosses)
    draw_squares(column, put, path, crosses)
    put("values", "values", f"{path}.weighted_sum", "WEIGHTS · V", frame.centre, wide)
    put(
        "concat",
        "concat",
        f"{path}.concat",
        "CONCAT HEADS",
        frame.centre,
        wide * 0.86,
        also=(f"{path}.concat.transpose", f"{path}.concat.view"),
    )
    output = f"{path}.output"
    put("output", "output", output, "LINEAR O", frame.centre, wide * 0.86, extra=column.params(output))
    last = f"{path}_add" if "norm" in rows else norm
    put(
        "add",
        "add",
        last,
        "ADD + LAYER NORM" if last == norm else "ADD",
        frame.centre,
        wide * 0.86,
        extra=column.dropout(f"{path}_dropout"),
        also=(f"{path}_dropout", f"{path}_add") if last == norm else (f"{path}_dropout",),
    )
    return nodes


@dataclass(frozen=True)
class Lane:
    """One of the three ways up: its letter, its name, and where it stands."""

    key: str
    part: str
    x: float

    @property
    def letter(self) -> str:
        return self.key.upper()


def draw_lane(column: Column, put: Put, path: str, lane: Lane, crosses: bool) -> None:
    """Queries, keys or values from their linear layer to the heads that meet."""
    journey, width, part, letter = column.main, column.frame.triple, lane.part, lane.letter
    brought = crosses and lane.key != "q"
    options = {
        "form": "tall",
        "surface": "encoder" if brought else column.side,
        "outline": "ribbon" if brought else None,
    }
    put(f"linear_{lane.key}", "qkv", f"{path}.{part}", f"LINEAR {letter}", lane.x, width, **options)
    grown = None if lane.key == "q" else cached_shape(journey, path)
    split = f"{path}.split_{part}"
    put(
        f"heads_{lane.key}",
        "heads",
        split,
        f"{letter} + CACHE" if grown else f"HEADS {letter}",
        lane.x,
        width,
        also=(f"{split}.view", f"{split}.transpose"),
        shape=grown,
        **options,
    )


def draw_squares(column: Column, put: Put, path: str, crosses: bool) -> None:
    """Keys laid on their side, and the squares of queries and keys."""
    frame, journey = column.frame, column.main
    put(
        "kt",
        "kt",
        f"{path}.transpose_key",
        "TRANSPOSE K^T",
        frame.centre,
        2 * (frame.centre - frame.query) - 26,
        form="three",
        surface="encoder" if crosses else column.side,
        outline="ribbon" if crosses else None,
    )
    narrow, x = frame.detail_right - frame.detail_left - 26, frame.centre - 13
    put("scores", "scores", f"{path}.scores", scores_label(journey, path), x, narrow, also=(f"{path}.scale",))
    if journey.step(f"{path}.mask") is not None:
        put("mask", "mask", f"{path}.mask", "MASK", x, narrow, surface="mask", extra=mask_remark(column, path))
    put(
        "softmax",
        "softmax",
        f"{path}.softmax",
        softmax_label(journey.step(f"{path}.softmax")),
        x,
        narrow,
        extra=column.dropout(f"{path}.dropout"),
        also=(f"{path}.dropout",),
    )


def join_nodes(canvas: Canvas, column: Column, nodes: dict[str, Box], stack: Stack) -> None:
    """The lines of one attention: three ways up, the lane of the values, the residual sum."""
    role, centre = column.side, column.frame.centre
    first = nodes.get("norm") or nodes.get("input")
    for key, x in (("q", column.frame.query), ("k", centre), ("v", column.frame.value)):
        foot, heads = nodes[f"linear_{key}"], nodes[f"heads_{key}"]
        if first is not None and ("ribbon" not in stack.rows or key == "q"):
            knee = min((first.top + foot.bottom) / 2, first.top + 5)
            points = (
                ((centre, first.top), (centre, knee), (x, knee), (x, foot.bottom))
                if x != centre
                else ((centre, first.top), (centre, foot.bottom))
            )
            canvas.line(*points, role=role, radius=5)
        fan(canvas, foot, heads, foot.on, column.heads)
    scores, values = nodes["scores"], nodes["values"]
    canvas.line((column.frame.query, nodes["heads_q"].top), (column.frame.query, scores.bottom), role=role)
    for lower, upper in pairwise((nodes["heads_k"], nodes["kt"], scores)):
        canvas.line((centre, lower.top), (centre, upper.bottom), role=nodes["heads_k"].on)
    lane, knee = column.frame.detail_right - 10, nodes["kt"].y
    canvas.line(
        (column.frame.value, nodes["heads_v"].top),
        (column.frame.value, knee),
        (lane, knee),
        (lane, values.bottom),
        role=nodes["heads_v"].on,
        radius=9,
    )
    for lower, upper in pairwise(nodes[key] for key in ("scores", "mask", "softmax", "values") if key in nodes):
        canvas.line((centre, lower.top), (centre, upper.bottom), role=role)
    fan(canvas, values, nodes["concat"], role, column.heads)
    if "input" in nodes and "norm" in nodes:
        canvas.line((centre, nodes["input"].top), (centre, nodes["norm"].bottom), role=role)
    for lower, upper in pairwise(nodes[key] for key in ("concat", "output", "add")):
        canvas.line((centre, lower.top), (centre, upper.bottom), role=role)


def fan(canvas: Canvas, lower: Box, upper: Box, role: str, heads: int) -> None:
    """One small arrow for each head, up to a handful."""
    count = max(1, min(heads, MOST_ARROWS))
    step = min(14.0, (min(lower.width, upper.width) - 24) / count)
    for place in range(count):
        x = upper.x + (place - (count - 1) / 2) * step
        canvas.line((x, lower.top), (x, upper.bottom), role=role, width=1.0, head_size=0.45, kind="flow heads")


def draw_skip(canvas: Canvas, column: Column, lower: Box | tuple[float, float], upper: Box) -> None:
    """The residual connection: a thick line around a sublayer."""
    start = (lower.left, lower.y) if isinstance(lower, Box) else lower
    x = column.frame.skip
    points = (start, (x, start[1]), (x, upper.y), (upper.left, upper.y))
    canvas.line(
        *points, role=column.side, width=4, head_size=0.75, radius=14, kind="skip", tooltip="residual connection"
    )
