"""The feed-forward sublayer: out to d_ff and back, then the residual sum."""

from dataclasses import dataclass
from itertools import pairwise

from xray.story.brief import join_brief
from xray.story.canvas import Canvas
from xray.story.column import Column
from xray.story.layout import Box
from xray.story.nodes import draw_node
from xray.story.plan import Stack


@dataclass(frozen=True)
class ForwardRow:
    """A row of the sublayer: the step it shows and those it stands for too, its name, its short name, a remark."""

    row: str
    path: str
    also: tuple[str, ...]
    label: str
    short: str
    remark: str


def draw_forward(canvas: Canvas, column: Column, stack: Stack) -> Box:
    """All rows of the sublayer, in detail and in brief; gives the box that its result leaves from."""
    frame = column.frame
    wide = (frame.detail_right - frame.detail_left) * 0.86
    boxes: list[Box] = []
    briefs: list[Box | None] = []
    for row in list_rows(column, stack):
        place = stack.rows[row.row]
        outline = "boundary" if row.row == "add" else None
        box = draw_node(
            canvas,
            column.main,
            row.path,
            place,
            frame.centre,
            wide,
            row.label,
            surface=column.side,
            extra=row.remark,
            also=row.also,
            outline=outline,
        )
        boxes += [box] if box is not None else []
        if column.brief is not None:
            width = frame.brief_right - frame.brief_left
            briefs.append(
                draw_node(
                    canvas,
                    column.brief,
                    row.path,
                    place,
                    frame.brief,
                    width,
                    row.short,
                    surface="inference",
                    form="brief",
                    also=row.also,
                    outline=outline,
                )
            )
    for lower, upper in pairwise(boxes):
        canvas.line((frame.centre, lower.top), (frame.centre, upper.bottom), role=column.side)
    join_brief(canvas, column, [box for box in briefs if box is not None])
    return boxes[-1]


def list_rows(column: Column, stack: Stack) -> list[ForwardRow]:
    """The rows from the bottom up; the norm stands first or goes with the sum."""
    path = f"{column.main.layer}.feed_forward"
    activation = column.main.step(f"{path}.activation")
    expand = f"LINEAR + {activation.op.upper()}" if activation is not None else "LINEAR"
    dropped = column.dropout(f"{path}_dropout")
    norm, add, dropout = f"{path}_norm", f"{path}_add", f"{path}_dropout"
    remark = column.params(f"{path}.expand")
    last = ForwardRow("add", norm, (dropout, add), "ADD + LAYER NORM", "ADD + NORM", dropped)
    if "norm" in stack.rows:
        last = ForwardRow("add", add, (dropout,), "ADD", "ADD", dropped)
    every = (
        ForwardRow("norm", norm, (), "LAYER NORM", "NORM", column.params(norm)),
        ForwardRow("expand", f"{path}.expand", (f"{path}.activation",), expand, "EXPAND", remark),
        ForwardRow("contract", f"{path}.contract", (), "LINEAR", "CONTRACT", column.params(f"{path}.contract")),
        last,
    )
    return [row for row in every if row.row in stack.rows]
