"""The encoder's and the decoder's frame: panels, titles, sublayers, and the remarks of a poster with one phase."""

from xray.story.attention import draw_attention, draw_skip
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.forward import draw_forward
from xray.story.journey import Journey
from xray.story.layer_groups import LayerGroup
from xray.story.layout import Box, Run
from xray.story.nodes import draw_node
from xray.story.plan import LABEL, NOTE, PANEL_PAD, TWO_LINES, Plan, Row, Stack
from xray.story.remarks import REMARKS
from xray.story.wording import wrap

PANELS = {
    ("encoder", "self_attention"): ("encoder_panel", 2, "SELF-ATTENTION"),
    ("encoder", "feed_forward"): ("encoder_panel_two", 3, "FEED-FORWARD"),
    ("decoder", "self_attention"): ("decoder_panel", 5, "SELF-ATTENTION"),
    ("decoder", "cross_attention"): ("decoder_panel_mid", 6, "CROSS-ATTENTION"),
    ("decoder", "feed_forward"): ("decoder_panel_two", 7, "FEED-FORWARD"),
}


TITLE_TOP, LINE = 34.0, 13.0
"""How far above a frame its title begins, on two lines; on one line it is lower by a line."""


def draw_side(canvas: Canvas, plan: Plan, column: Column) -> Box:
    """One frame with everything in it; gives the box that its result leaves from."""
    flank = plan.flanks[column.side]
    stacks, top, frame = flank.stacks, flank.top, column.frame
    canvas.panel(frame.left, plan.frame_bottom, frame.right, top, f"{column.side}_frame", 26, "casing", 2.6)
    last: Box | None = None
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
            enter_brief(canvas, column, last, stack)
        last = result
    draw_frame_title(canvas, column, top)
    return result


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


def enter_brief(canvas: Canvas, column: Column, last: Box, stack: Stack) -> None:
    """The line at inference from one sublayer to the next; where keys stand beside queries, to the queries."""
    frame = column.frame
    inside = [
        box
        for box in canvas.boxes
        if frame.brief_left - 1 < box.left and box.right < frame.brief_right + 1 and stack.bottom < box.y < stack.top
    ]
    first = max(inside, key=lambda box: (-box.y, box.x))
    start, knee = (frame.brief, last.top), (frame.brief, first.bottom - 9)
    way = (start, knee, (first.x, knee[1]), (first.x, first.bottom))
    points = way if first.x != frame.brief else (start, way[-1])
    canvas.line(*points, role="inference_on_panel", dashed=True, width=1.6, head_size=0.5, radius=5)


def draw_title(canvas: Canvas, column: Column, stack: Stack, surface: str, title: str, name: str) -> None:
    """The panel's name left of the way in, its parameters right of it."""
    y = stack.rows["title"].y + 7
    accent = f"accent:{column.side}"
    canvas.note(column.frame.left + 22, y, (words(title, LABEL, accent, "bold"),), surface)
    params = column.params(f"{column.main.layer}.{name}")
    if params:
        canvas.note(column.frame.centre + 12, y - 1, (words(params, NOTE, "quiet"),), surface)


def draw_frame_title(canvas: Canvas, column: Column, top: float) -> None:
    """The layer's name with how many of it there are, and under it its parameters."""
    shown, count, left = column.groups[0], len(column.main.layers), column.frame.left + 14
    alike = f" × {len(shown.layers)}"
    title, times = ("LAYER", alike) if len(column.groups) == 1 else (shown.title, f" of {count}")
    name = (
        Run(f"{column.side.upper()} {title}", LABEL + 2, "text", "bold"),
        Run(times, LABEL + 2, "accent:boundary", "bold"),
    )
    params = column.params(column.main.layer)
    if upper_layers(column) is not None:
        canvas.note(left, top + TITLE_TOP - LINE, (name,))
        canvas.note(column.frame.centre + 16, top + TITLE_TOP - LINE - 3, (words(params, NOTE, "quiet"),))
        return
    each = " each" if params and len(shown.layers) > 1 else ""
    room = column.frame.centre - 12 - left
    forms = (params + each, params.replace(" parameters", "") + each)
    told = next((form for form in forms if canvas.text_width(form, NOTE) <= room), forms[-1])
    canvas.note(left, top + TITLE_TOP, (name, words(told, NOTE, "quiet")) if told else (name,))


def above_title(column: Column) -> float:
    """How far above a frame the middle of the first node is that clears the title."""
    return TITLE_TOP + 4 + TWO_LINES / 2 - (LINE if upper_layers(column) is not None else 0)


def upper_layers(column: Column) -> LayerGroup | None:
    """The layers above the one that is shown, where they are not told by the same frame."""
    rest = tuple(layer for group in column.groups[1:] for layer in group.layers)
    return LayerGroup(column.side, rest) if rest else None


def draw_upper(canvas: Canvas, column: Column, journey: Journey, row: Row) -> Box | None:
    """One node for the layers above the one that is shown, which data still has to go through; None without any."""
    group, frame, detailed = upper_layers(column), column.frame, journey is column.main
    if group is None:
        return None
    return draw_node(
        canvas,
        journey,
        f"{column.side}.layers.{group.layers[-1]}",
        row,
        frame.centre if detailed else frame.brief,
        230 if detailed else frame.brief_right - frame.brief_left,
        group.title,
        surface=f"{column.side}_frame" if detailed else "inference",
        form="wide" if detailed else "brief",
        extra="" if any(one.unlike for one in column.groups) else "each the same",
        also=tuple(f"{column.side}.layers.{layer}" for layer in group.layers[:-1]),
        outline="casing" if detailed else None,
    )


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
    for row, text in REMARKS[name].items():
        if row in stack.rows and not (row == "mask" and column.main.step(f"{column.main.layer}.{name}.mask") is None):
            lines = tuple(words(line, NOTE, "quiet") for line in wrap(text, NOTE, width, canvas.measure))
            y = stack.rows[row].y + sum(12 for _ in lines) / 2
            canvas.note(frame.brief_left + 4, y, lines, surface)
