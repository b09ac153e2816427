"""The encoder's and the decoder's frame: panels, titles, sublayers, and the remarks of a poster with one phase."""

from xray.story.attention import draw_attention, draw_skip
from xray.story.brief import join_brief
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.forward import draw_forward
from xray.story.layout import Box, Run
from xray.story.plan import LABEL, NOTE, PANEL_PAD, Plan, Stack
from xray.story.remarks import tell_rows
from xray.story.wording import wrap

PANELS = {
    ("encoder", "self_attention"): ("encoder_panel", 2, "SELF-ATTENTION"),
    ("encoder", "feed_forward"): ("encoder_panel_two", 3, "FEED-FORWARD"),
    ("decoder", "self_attention"): ("decoder_panel", 5, "SELF-ATTENTION"),
    ("decoder", "cross_attention"): ("decoder_panel_mid", 6, "CROSS-ATTENTION"),
    ("decoder", "feed_forward"): ("decoder_panel_two", 7, "FEED-FORWARD"),
}


def draw_side(canvas: Canvas, plan: Plan, column: Column) -> dict[str, Box]:
    """One frame with everything in it; gives the boxes that other parts join to, by sublayer and place."""
    flank = plan.flanks[column.side]
    stacks, top, frame = flank.stacks, flank.top, column.frame
    canvas.panel(frame.left, plan.frame_bottom, frame.right, top, f"{column.side}_frame", 26, "casing", 2.6)
    last: Box | None = None
    ends: dict[str, Box] = {}
    for name, stack in stacks.items():
        surface, number, title = PANELS[(column.side, name)]
        canvas.panel(frame.left + PANEL_PAD, stack.bottom, frame.right - PANEL_PAD, stack.top, surface, 16)
        draw_title(canvas, column, stack, surface, title, name)
        draw_station(canvas, frame.left, stack.rows["title"].y, number)
        result = (
            draw_forward(canvas, column, stack)
            if name == "feed_forward"
            else draw_attention(canvas, column, name, stack)
        )
        enter = entry(canvas, column, last, stack, name)
        draw_skip(canvas, column, enter, result)
        if column.brief is None:
            draw_remarks(canvas, column, name, stack, surface)
        elif last is not None:
            join_brief(
                canvas, column, [brief_box(column, last), brief_box(column, first_box(canvas, stack, frame.brief))]
            )
        ends[name] = last = result
    draw_frame_title(canvas, column, top)
    return ends


def entry(canvas: Canvas, column: Column, last: Box | None, stack: Stack, name: str) -> Box | tuple[float, float]:
    """Where a sublayer's data comes from, joined to it; the residual line leaves from there."""
    if last is None:
        return next(box for box in canvas.boxes if box.y == stack.rows["input"].y and box.x == column.frame.centre)
    centre = column.frame.centre
    if name == "cross_attention" and "norm" not in stack.rows:
        fork, query = stack.rows["ribbon"].bottom, column.frame.query
        path = ((centre, last.top), (centre, fork), (query, fork), (query, stack.rows["qkv"].bottom))
        canvas.line(*path, role=column.side, width=2, radius=9)
        return (centre, fork)
    row = next(row for key, row in stack.rows.items() if key != "title")
    canvas.line((centre, last.top), (centre, row.bottom), role=column.side, width=2)
    return (centre, stack.rows["title"].top + 3)


def first_box(canvas: Canvas, stack: Stack, x: float) -> Box:
    return min((box for box in canvas.boxes if box.x == x and stack.bottom < box.y < stack.top), key=lambda box: box.y)


def brief_box(column: Column, box: Box) -> Box:
    return Box(box.id, column.frame.brief, box.y, 0, box.height, (), "inference")


def draw_title(canvas: Canvas, column: Column, stack: Stack, surface: str, title: str, name: str) -> None:
    """The panel's name left of the way in, its parameters right of it."""
    y = stack.rows["title"].y + 7
    accent = f"accent:{column.side}"
    canvas.note(column.frame.left + 22, y, (words(title, LABEL, accent, "bold"),), surface)
    params = column.params(f"{column.main.layer}.{name}")
    if params:
        canvas.note(column.frame.centre + 12, y - 1, (words(params, NOTE, "quiet"),), surface)


def draw_frame_title(canvas: Canvas, column: Column, top: float) -> None:
    """The layer's name with how many of it there are, and its parameters."""
    shown, count = column.groups[0], len(column.main.layers)
    alike = f" × {len(shown.layers)}"
    title, times = ("LAYER", alike) if len(column.groups) == 1 else (shown.title, f" of {count}")
    name = (
        Run(f"{column.side.upper()} {title}", LABEL + 2, "text", "bold"),
        Run(times, LABEL + 2, "accent:boundary", "bold"),
    )
    canvas.note(column.frame.left + 14, top + 22, (name,))
    params = column.params(column.main.layer)
    if params and len(shown.layers) > 1:
        params += " each"
    canvas.note(column.frame.centre + 16, top + 19, (words(params, NOTE, "quiet"),))


def draw_station(canvas: Canvas, x: float, y: float, number: int, radius: float = 15, kind: str = "station") -> None:
    """A pink circle with the number of a station."""
    size = round(radius * 1.15) if radius > NOTE else NOTE
    canvas.add(
        Box(
            f"{kind}_{number}_{len(canvas.boxes)}",
            x,
            y,
            2 * radius,
            2 * radius,
            (words(str(number), size, "text", "bold"),),
            "station",
            shape="circle",
            outline_width=radius / 10,
            kind=kind,
            tooltip=f"station {number}",
        )
    )


def draw_remarks(canvas: Canvas, column: Column, name: str, stack: Stack, surface: str) -> None:
    """What happens in each row, in plain words, where no second phase takes the place."""
    frame = column.frame
    width = frame.brief_right - frame.brief_left
    width -= 8 if column.is_retold else 0
    for row, text in tell_rows(column, name).items():
        if row in stack.rows and not (row == "mask" and column.main.step(f"{column.main.layer}.{name}.mask") is None):
            lines = tuple(words(line, NOTE, "quiet") for line in wrap(text, NOTE, width, canvas.measure))
            y = stack.rows[row].y + sum(12 for _ in lines) / 2
            canvas.note(frame.brief_left + 4, y, lines, surface)
