"""The long ways: memory to the decoder, gradients back through the model, the new word to the answer."""

from collections.abc import Sequence
from math import prod

from xray.ir.trace import Step
from xray.story.canvas import Canvas, polygon, straight, words
from xray.story.layout import Box, Curve, Line, Panel, Point, Run
from xray.story.shapes import digits
from xray.story.sheet.columns import Column
from xray.story.sheet.frames import Drawn
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import plural, wrap

RIBBON_TIP, CROWN = 13.0, 112.0
"""How high the tip of the ribbon's arrow is, and how far the arch rises above a tower."""


def draw_memory(
    canvas: Canvas, start: Box, roof: float, feet: Sequence[Sequence[Box]], edge: float, lane: float, tooltip: str
) -> float:
    """Keys and values on their way from a tower's top into cross-attention; gives the height that it climbs to."""
    crown = max(roof + CROWN, start.top + CROWN - 16)
    for number, row in enumerate(feet):
        aims = sorted(box.x for box in row)
        foot = min(box.bottom for box in row)
        low = foot - 25
        shift = 5.0 * number
        path = arc((start.x, start.top), crown, lane + shift, low, edge, aims[-1], foot)
        branches = [((x, low), *straight((x, low), (x, foot))) for x in aims[:-1]]
        for role, width in (("casing", 13.0), ("ribbon", 8.5)):
            for points in (*branches, path):
                end = (points[-1][0], foot - RIBBON_TIP + (2 if role == "ribbon" else 0))
                shown = (*points[:-3], *straight(points[-4], end))
                canvas.curves.append(Curve(shown, role, width, head=False, kind="ribbon", tooltip=tooltip))
        for x in aims:
            tip = polygon((x - 12, foot - RIBBON_TIP), (x + 12, foot - RIBBON_TIP), (x, foot - 1))
            canvas.panels.append(Panel(tip, "line:ribbon", "casing", 2.0))
    return crown


def arc(start: Point, crown: float, lane: float, low: float, edge: float, tip: float, foot: float) -> tuple[Point, ...]:
    """Up out of a tower, over, down the aisle, and across to the foot of the target."""
    x, _ = start
    middle = (x + lane) / 2
    rise = crown - 56
    bend = edge + 16
    return (
        start,
        *straight(start, (x, rise)),
        (x, crown - 18),
        (x + 24, crown),
        (middle, crown),
        (lane + 6, crown),
        (lane - 6, low),
        (bend, low),
        *straight((bend, low), (tip - 12, low)),
        (tip - 5, low),
        (tip, low + 5),
        (tip, low + 12),
        *straight((tip, low + 12), (tip, foot)),
    )


def draw_memory_rows(canvas: Canvas, tips: Sequence[Point], crown: float, start: float, edge: float) -> None:
    """Memory into the layers that are not drawn in full, from where the arch is highest."""
    lane = edge - 13
    for tip in tips:
        way = ((start, crown), (lane, crown), (lane, tip[1]), tip)
        for role, width in (("casing", 5.5), ("ribbon", 3.2)):
            canvas.line(*way, role=role, width=width, head=role == "ribbon", head_size=0.7, radius=8, kind="ribbon")


def draw_memory_once(
    canvas: Canvas, start: Box, drawn: Drawn, crown: float, feet: Sequence[Sequence[Box]], edge: float, lane: float
) -> None:
    """The same way at inference, walked once and used in every turn."""
    x, roof = start.x, drawn.top
    for row in feet:
        box = min(row, key=lambda one: one.x)
        down = box.bottom - 38.5
        inside = start.top < roof
        if inside:
            canvas.line((x, start.top), (x, roof - 9), role="inference_on_panel", width=1.8, dashed=True, head=False)
        path = (
            (x, roof + 3 if inside else start.top),
            (x, crown - 20),
            (lane - 26, crown - 26),
            (lane - 12, roof - 8),
            (lane - 6, roof - 60),
            (lane - 12, down),
            (edge + 4, down),
            *straight((edge + 4, down), (edge + 5, down)),
        )
        canvas.curves.append(Curve(path, "inference", 2, dash=(5, 3), head=False, kind="memory"))
        canvas.line(
            (edge + 11, down),
            (box.x, down),
            (box.x, box.bottom),
            role="inference_on_panel",
            width=1.8,
            dashed=True,
            head_size=0.6,
            radius=8,
            kind="memory",
        )


def draw_memory_note(canvas: Canvas, column: Column, starts: Sequence[Box], crown: float, told: str) -> None:
    """What the ribbon carries, written under its arch."""
    lines: list[Line] = [
        words("MEMORY", LABEL, "accent:encoder", "bold"),
        *(words(line, NOTE) for line in wrap(told, NOTE, 112.0, canvas.measure)),
    ]
    for phase, box in zip(column.phases, starts, strict=True):
        if box.record is not None:
            step = phase.look.passes[0].by_id.get(box.steps[0].partition("/")[2])
            shape = None if step is None else phase.look.shape(step, box.record)
            once = (Run("  once", NOTE, "accent:inference", "semibold"),) if phase.look.role == "inference" else ()
            lines += [(*digits(shape, LABEL + 1), *once)] if shape is not None else []
    about = tuple(box.steps[0] for box in starts if box.steps)
    canvas.note(starts[0].x + 24, crown - 21, tuple(lines), about=about)


def draw_gradients(canvas: Canvas, loss: Box, lane: float, bottom: float, tooltip: str) -> None:
    """Gradients from the loss down through everything, and then a new batch."""
    canvas.line(
        (loss.left, loss.y),
        (lane, loss.y),
        (lane, bottom),
        role="training",
        width=3,
        dashed=True,
        radius=16,
        head_size=0.9,
        kind="backprop",
        tooltip=tooltip[:400],
    )
    canvas.note(lane, bottom - 5, (words("NEW BATCH", NOTE, "accent:training", "bold"),), align="center")


def list_gradient_lines(steps: Sequence[Step]) -> tuple[Line, ...]:
    """What back-propagation returned, in two lines; none where it was not recorded."""
    outputs = [record for step in steps for record in step.outputs]
    if not outputs:
        return ()
    told = f"{plural(len(outputs), 'gradient')}, {plural(sum(prod(one.shape) for one in outputs), 'number')}"
    return (words("BACK-PROPAGATION", LABEL, "accent:training", "bold"), words(told, NOTE))


def draw_loop(
    canvas: Canvas,
    word: Box,
    lane: float,
    low: float,
    end: float,
    caption: tuple[float, float],
    remarks: Sequence[str],
    tooltip: str,
) -> None:
    """The new word goes to the end of the answer, and the decoder reads it all again.

    `end` is where the line comes back, `caption` from where and at which height there is room for one of the remarks.
    """
    canvas.line(
        (word.right, word.y),
        (lane, word.y),
        (lane, low),
        (end, low),
        role="inference",
        width=5,
        radius=34,
        head_size=0.9,
        kind="loop",
        tooltip=tooltip,
    )
    start, top = caption
    told = next(
        (each for each in remarks if canvas.text_width(each, NOTE, "semibold") <= lane + 4 - start), remarks[-1]
    )
    canvas.note(lane + 4, top, (words(told, NOTE, "accent:inference", "semibold"),), align="right")
