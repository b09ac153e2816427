"""The long ways: memory to the decoder, gradients back through the model, the new word to the answer."""

from xray.story.brief import keys_lane
from xray.story.canvas import Canvas, polygon, straight, words
from xray.story.column import Column
from xray.story.entrance import caption_line
from xray.story.layout import Box, Curve, Line, Panel, Point, Run, line_width
from xray.story.nodes import draw_node
from xray.story.plan import LABEL, NOTE, TWO_LINES, Plan, Row
from xray.story.shapes import digits
from xray.story.sides import above_title, draw_station, draw_upper
from xray.story.wording import plural

RIBBON_TIP, LIFT = 13.0, 50.0
LOOP_REMARKS = ("append the word, decode again until <eos>", "append it, decode again", "append it")


def draw_ribbon(canvas: Canvas, plan: Plan, encoder: Column, decoder: Column, memory: Box) -> float:
    """Keys and values on their way from the encoder's top into cross-attention; gives the height it climbs to."""
    frame, target = encoder.frame, decoder.frame
    rows = plan.flanks["decoder"].stacks["cross_attention"].rows
    low = rows["ribbon"].y + 4
    feet = rows["qkv"].bottom
    memory, above = draw_upper_layers(canvas, plan, encoder, memory)
    memory, lift = draw_last_norm(canvas, plan, encoder, memory, above)
    crown = plan.flanks["encoder"].top + 112 + lift
    tooltip = "memory: keys and values for every decoder layer\n" + encoder.main.tell("encoder")
    path = arc((frame.centre, memory.top), crown, plan.stairwell, low, target.value, feet)
    branch = ((target.centre, low), *straight((target.centre, low), (target.centre, feet)))
    for role, width in (("casing", 13.0), ("ribbon", 8.5)):
        for points in (branch, path):
            end = (points[-1][0], feet - RIBBON_TIP + (2 if role == "ribbon" else 0))
            shown = (*points[:-3], *straight(points[-4], end))
            canvas.curves.append(Curve(shown, role, width, head=False, kind="ribbon", tooltip=tooltip))
    for x in (target.centre, target.value):
        tip = polygon((x - 12, feet - RIBBON_TIP), (x + 12, feet - RIBBON_TIP), (x, feet - 1))
        canvas.panels.append(Panel(tip, "line:ribbon", "casing", 2.0))
    if encoder.brief is not None and decoder.brief is not None:
        draw_memory_once(canvas, plan, encoder, decoder, crown, low)
    draw_memory_note(canvas, plan, encoder, lift)
    return crown


def draw_upper_layers(canvas: Canvas, plan: Plan, encoder: Column, memory: Box) -> tuple[Box, float]:
    """The layers above the one that is shown; gives what memory leaves from, and how much higher that is."""
    x, row = encoder.frame.centre, Row(plan.flanks["encoder"].top + above_title(encoder), TWO_LINES)
    upper = draw_upper(canvas, encoder, encoder.main, row)
    if upper is None:
        return memory, 0.0
    if encoder.brief is not None:
        draw_upper(canvas, encoder, encoder.brief, row)
    canvas.line((x, memory.top), (x, upper.bottom), role="ribbon", width=3, head_size=0.8)
    return upper, LIFT


def draw_last_norm(canvas: Canvas, plan: Plan, encoder: Column, memory: Box, lift: float) -> tuple[Box, float]:
    """The norm after all layers, where there is one; gives what memory leaves from, and how much higher that is."""
    row = Row(plan.flanks["encoder"].top + above_title(encoder) + lift, TWO_LINES)
    frame = encoder.frame
    norm = draw_node(
        canvas,
        encoder.main,
        "encoder.norm",
        row,
        frame.centre,
        216,
        "LAST LAYER NORM",
        surface="encoder",
    )
    if norm is None:
        return memory, lift
    canvas.line((frame.centre, memory.top), (frame.centre, norm.bottom), role="ribbon", width=3, head_size=0.8)
    if encoder.brief is not None:
        wide = frame.brief_right - frame.brief_left
        draw_node(
            canvas, encoder.brief, "encoder.norm", row, frame.brief, wide, "NORM", surface="inference", form="brief"
        )
    return norm, lift + LIFT + (0 if lift else 16)


def arc(start: Point, crown: float, lane: float, low: float, tip: float, feet: float) -> tuple[Point, ...]:
    """Up out of the encoder, over, down the aisle, and across to the foot of the target."""
    x, _y = start
    middle = (x + lane) / 2
    rise = crown - 56
    return (
        start,
        *straight(start, (x, rise)),
        (x, crown - 18),
        (x + 24, crown),
        (middle, crown),
        (lane + 6, crown),
        (lane - 6, low),
        (lane + 60, low),
        *straight((lane + 60, low), (tip - 12, low)),
        (tip - 5, low),
        (tip, low + 5),
        (tip, low + 12),
        *straight((tip, low + 12), (tip, feet)),
    )


def draw_memory_once(canvas: Canvas, plan: Plan, encoder: Column, decoder: Column, crown: float, low: float) -> None:
    """The same way at inference, walked once and used in every turn."""
    x = encoder.frame.brief
    top = plan.flanks["encoder"].stacks["feed_forward"].rows["add"].top
    roof = plan.flanks["encoder"].top
    rows = plan.flanks["decoder"].stacks["cross_attention"].rows
    down = low - 14
    end = keys_lane(decoder)
    lane = plan.stairwell - 14
    canvas.line((x, top), (x, roof - 9), role="inference_on_panel", width=1.8, dashed=True, head=False)
    start = (x, roof + 3)
    path = (
        start,
        (x, crown - 20),
        (lane - 12, crown - 26),
        (lane + 2, roof - 8),
        (lane + 8, roof - 60),
        (lane + 2, down),
        (decoder.frame.left + 4, down),
        *straight((decoder.frame.left + 4, down), (decoder.frame.left + 5, down)),
    )
    canvas.curves.append(Curve(path, "inference", 2, dash=(5, 3), head=False, kind="memory"))
    canvas.line(
        (decoder.frame.left + 11, down),
        (end, down),
        (end, rows["qkv"].bottom),
        role="inference_on_panel",
        width=1.8,
        dashed=True,
        head_size=0.6,
        radius=8,
        kind="memory",
    )


def draw_memory_note(canvas: Canvas, plan: Plan, encoder: Column, lift: float) -> None:
    """What the ribbon carries, written under its arch."""
    lines: list[Line] = [
        words("MEMORY", LABEL, "accent:encoder", "bold"),
        words("keys and values for", NOTE),
        words("every decoder layer", NOTE),
    ]
    for journey in (encoder.main, encoder.brief):
        shape = journey.output("encoder") if journey is not None else None
        if journey is not None and shape is not None:
            once = (Run("  once", NOTE, "accent:inference", "semibold"),) if journey.phase == "inference" else ()
            lines.append((*digits(shape, LABEL + 1), *once))
    canvas.note(encoder.frame.centre + 24, plan.flanks["encoder"].top + 91 + lift, tuple(lines))


def draw_backprop(canvas: Canvas, plan: Plan, loss: Box, decoder: Column) -> None:
    """Gradients from the loss down through everything, and then a new batch (station 9)."""
    x = plan.stairwell
    bottom = plan.captions.top + 4
    canvas.line(
        (loss.left, loss.y),
        (x, loss.y),
        (x, bottom),
        role="training",
        width=3,
        dashed=True,
        radius=16,
        head_size=0.9,
        kind="backprop",
        tooltip=decoder.main.tell("backward")[:400],
    )
    canvas.note(x, plan.captions.top - 1, (words("NEW BATCH", NOTE, "accent:training", "bold"),), align="center")
    draw_station(canvas, x, (plan.ids.y + plan.ids.top) / 2, 9)


def tell_gradients(decoder: Column) -> tuple[Line, ...]:
    """What back-propagation returns, in two lines; none where it was not recorded."""
    step = decoder.main.step("backward")
    if step is None or not step.outputs:
        return ()
    numbers = sum(product(record.shape) for record in step.outputs)
    told = f"{plural(len(step.outputs), 'gradient')}, {plural(numbers, 'number')}"
    return (words("BACK-PROPAGATION", LABEL, "accent:training", "bold"), words(told, NOTE))


def product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def draw_loop(canvas: Canvas, plan: Plan, word: Box, decoder: Column) -> None:
    """The new word goes to the end of the answer, and the decoder reads it all again (station 9)."""
    x, y = plan.loop, plan.words.y
    end = plan.flanks[decoder.side].ledger[1] + 4
    journey = decoder.brief or decoder.main
    canvas.line(
        (word.right, word.y),
        (x, word.y),
        (x, y),
        (end, y),
        role="inference",
        width=5,
        radius=34,
        head_size=0.9,
        kind="loop",
        tooltip=journey.tell("append"),
    )
    middle = decoder.frame.brief if decoder.brief is not None else decoder.frame.centre
    caption_end = middle + line_width(caption_line(journey), canvas.measure) / 2 + 12
    told = next(
        (each for each in LOOP_REMARKS if canvas.text_width(each, NOTE, "semibold") <= x + 4 - caption_end),
        LOOP_REMARKS[-1],
    )
    canvas.note(x + 4, plan.captions.y + 8, (words(told, NOTE, "accent:inference", "semibold"),), align="right")
    draw_station(canvas, x, plan.flanks[decoder.side].stacks["self_attention"].rows["values"].y, 9)
