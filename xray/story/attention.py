"""Multi-head attention, drawn from the linear layers at the bottom to the residual sum at the top."""

from itertools import pairwise

from xray.ir.trace import Step
from xray.story.brief import draw_brief
from xray.story.canvas import Canvas
from xray.story.column import Column
from xray.story.layout import Box
from xray.story.nodes import cached_shape, draw_node
from xray.story.plan import Stack

MOST_ARROWS = 8


def draw_attention(canvas: Canvas, column: Column, name: str, stack: Stack) -> Box:
    """All nodes of one attention sublayer and the lines between them; gives the box that its result leaves from."""
    path = f"{column.side}.layers.0.{name}"
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
        box = draw_node(canvas, journey, step, rows[row], x, width, label, **{"surface": own, **options})  # type: ignore[arg-type]
        if box is not None:
            nodes[key] = box

    if "input" in rows:
        put(
            "input",
            "input",
            f"{own}.layers.0",
            "LAYER INPUT",
            frame.centre,
            wide * 0.72,
            shape=journey.input(f"{own}.layers.0", "x"),
            outline="boundary",
        )
    if "norm" in rows:
        put(
            "norm", "norm", f"{path}_norm", "LAYER NORM", frame.centre, wide * 0.72, extra=column.params(f"{path}_norm")
        )
    origin, brought = ("encoder", "ribbon") if crosses else (own, None)
    for key, part, x in (("q", "query", frame.query), ("k", "key", frame.centre), ("v", "value", frame.value)):
        from_side = own if key == "q" else origin
        put(
            f"linear_{key}",
            "qkv",
            f"{path}.{part}",
            f"LINEAR {key.upper()}",
            x,
            frame.triple,
            form="tall",
            surface=from_side,
            outline=brought if key != "q" else None,
        )
        grown = None if key == "q" else cached_shape(journey, path)
        put(
            f"heads_{key}",
            "heads",
            f"{path}.split_{part}",
            f"{key.upper()} + CACHE" if grown else f"HEADS {key.upper()}",
            x,
            frame.triple,
            form="tall",
            surface=from_side,
            also=(f"{path}.split_{part}.view", f"{path}.split_{part}.transpose"),
            shape=grown,
            outline=brought if key != "q" else None,
        )
    between = 2 * (frame.centre - frame.query) - 26
    put(
        "kt",
        "kt",
        f"{path}.transpose_key",
        "TRANSPOSE K^T",
        frame.centre,
        between,
        form="three",
        surface=origin,
        outline=brought,
    )
    narrow, x = wide - 26, frame.centre - 13
    scale = journey.step(f"{path}.scale")
    put("scores", "scores", f"{path}.scores", scale_label(scale), x, narrow, also=(f"{path}.scale",))
    if journey.step(f"{path}.mask") is not None:
        mask = journey.input(f"{path}.mask", "mask")
        put(
            "mask",
            "mask",
            f"{path}.mask",
            "MASK",
            x,
            narrow,
            surface="mask",
            extra=f"{mask.plain} broadcast" if mask else "",
        )
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
    put(
        "output",
        "output",
        f"{path}.output",
        "LINEAR O",
        frame.centre,
        wide * 0.86,
        extra=column.params(f"{path}.output"),
    )
    last = f"{path}_add" if "norm" in rows else f"{path}_norm"
    put(
        "add",
        "add",
        last,
        "ADD" if "norm" in rows else "ADD + LAYER NORM",
        frame.centre,
        wide * 0.86,
        extra=column.dropout(f"{path}_dropout"),
        also=(f"{path}_dropout", f"{path}_add") if last.endswith("norm") else (f"{path}_dropout",),
    )
    return nodes


def scale_label(scale: Step | None) -> str:
    """What the scores are multiplied with, from the recorded setting."""
    formula = str(scale.settings.get("formula", "")) if scale else ""
    return "SCORES Q·K^T" + (" ÷ √d_k" if formula == "1/sqrt(d_k)" else f" · {formula}" if formula else "")


def softmax_label(softmax: Step | None) -> str:
    dim = softmax.settings.get("dim") if softmax else None
    return f"SOFTMAX dim {dim}".replace("-", "−") if dim is not None else "SOFTMAX"


def join_nodes(canvas: Canvas, column: Column, nodes: dict[str, Box], stack: Stack) -> None:
    """The lines of one attention: three ways up, the lane of the values, the residual sum."""
    role, centre = column.side, column.frame.centre
    first = nodes.get("norm") or nodes.get("input")
    for key, x in (("q", column.frame.query), ("k", centre), ("v", column.frame.value)):
        line, heads = nodes[f"linear_{key}"], nodes[f"heads_{key}"]
        if first is not None and ("input" in nodes or key == "q"):
            knee = min((first.top + line.bottom) / 2, first.top + 5)
            points = (
                ((centre, first.top), (centre, knee), (x, knee), (x, line.bottom))
                if x != centre
                else ((centre, first.top), (centre, line.bottom))
            )
            canvas.line(*points, role=role, radius=5)
        fan(canvas, line, heads, line.on, column.heads)
    canvas.line((column.frame.query, nodes["heads_q"].top), (column.frame.query, nodes["scores"].bottom), role=role)
    origin = nodes["linear_k"].on
    canvas.line((centre, nodes["heads_k"].top), (centre, nodes["kt"].bottom), role=origin)
    canvas.line((centre, nodes["kt"].top), (centre, nodes["scores"].bottom), role=origin)
    lane = column.frame.detail_right - 10
    knee = nodes["kt"].y
    canvas.line(
        (column.frame.value, nodes["heads_v"].top),
        (column.frame.value, knee),
        (lane, knee),
        (lane, nodes["values"].bottom),
        role=origin,
        radius=9,
    )
    chain = [nodes[key] for key in ("scores", "mask", "softmax", "values") if key in nodes]
    for lower, upper in pairwise(chain):
        canvas.line((centre, lower.top), (centre, upper.bottom), role=role)
    fan(canvas, nodes["values"], nodes["concat"], role, column.heads)
    for below, above in (("input", "norm"), ("concat", "output"), ("output", "add")):
        if below in nodes and above in nodes:
            canvas.line((centre, nodes[below].top), (centre, nodes[above].bottom), role=role)


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
