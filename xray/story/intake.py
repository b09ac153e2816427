"""What goes into a model of which no words are known: a shape, ids where they were kept, and the way to its vectors."""

from itertools import pairwise

from xray.ir.records import TensorRecord
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.journey import Journey, Tale, name_shape
from xray.story.layout import LEADING, Box, Line, Run
from xray.story.nodes import draw_node, fit_digits
from xray.story.plan import EMBED_WIDTH, LABEL, NOTE, OP, PANEL_PAD, SYMBOL, Plan
from xray.story.shapes import ShapeText, read_shape, symbols
from xray.story.sides import draw_station
from xray.story.wording import fit_text

MOST_ROWS = 4
LINE = NOTE * LEADING


def draw_intake(canvas: Canvas, plan: Plan, column: Column) -> None:
    """From what goes in to the first layer, for the detailed journey and for the brief one."""
    number = 1 if column.side == "encoder" else 4
    left = column.frame.centre - EMBED_WIDTH / 2 - 40
    draw_station(canvas, left, plan.entrance["input"].y, number)
    for journey, x in ((column.main, column.frame.centre), (column.brief, column.frame.brief)):
        if journey is not None:
            canvas.note(x, plan.captions.y + 8, (caption_line(journey),), align="center")
            draw_way_in(canvas, plan, column, journey, x)


def draw_way_in(canvas: Canvas, plan: Plan, column: Column, journey: Journey, x: float) -> None:
    """The input, its patches, its embedding, its places: whatever of these there is, one above the other."""
    frame, detailed = column.frame, journey is column.main
    width = EMBED_WIDTH + 22 if detailed else frame.brief_right - frame.brief_left
    path = f"{journey.side}.embedding"
    surface = journey.side if detailed else "inference"
    boxes = [draw_input(canvas, plan, journey, x, width)]
    for row, part, label in (("patches", "patches", patches_label(journey)), ("embed", "words", embed_label(journey))):
        if row not in plan.entrance:
            continue
        box = draw_node(
            canvas,
            journey,
            f"{path}.{part}",
            plan.entrance[row],
            x,
            width,
            label,
            surface=surface,
            form="three" if detailed else "brief",
            also=(f"{path}.scale",) if part == "words" else (),
        )
        boxes += [box] if box is not None else []
    if "plus" in plan.entrance and (journey.steps(f"{path}.add") or journey.steps(f"{path}.positions")):
        boxes.append(draw_places(canvas, plan, column, journey, x))
    dashed = journey.phase == "inference"
    for lower, upper in pairwise(boxes):
        canvas.line((x, lower.top), (x, upper.bottom), role=journey.phase, width=2, dashed=dashed)
    enter_frame(canvas, plan, journey, x, boxes[-1].top, detailed=detailed)


def draw_input(canvas: Canvas, plan: Plan, journey: Journey, x: float, width: float) -> Box:
    """What goes in: the name and the shape of the tensor, and the first ids below it where they were kept."""
    records = entering(journey)
    shape = read_shape(records) if records else ShapeText((), ())
    row = plan.entrance["input"]
    record = records[0][1] if records else None
    name = "TOKEN IDS" if record is not None and record.role == "ids" else "WHAT GOES IN"
    lines: tuple[Line, ...] = (words(name, OP, "text", "semibold"), fit_digits(canvas, shape, width - 6))
    if any(shape.axes):
        text = fit_text(shape.symbols, SYMBOL, width - 6, canvas.measure)
        lines += (symbols(shape, SYMBOL) if text == shape.symbols else words(text, SYMBOL, "quiet"),)
    tooltip = name_shape(record) + f" {record.dtype}" if record is not None else "nothing is known of what goes in"
    box = canvas.add(
        Box(
            f"input_{journey.side}_{journey.phase}",
            x,
            row.y,
            width,
            row.height,
            lines,
            "card",
            outline=journey.phase,
            outline_width=1.6,
            kind="input",
            tooltip=tooltip,
        )
    )
    listed = id_rows(record)
    if listed:
        told = [words(fit_text(line, NOTE, width + 40, canvas.measure), NOTE, "quiet") for line in listed]
        canvas.note(x, row.bottom - 6, tuple(told), align="center", tooltip=tooltip)
    return box


def entering(journey: Journey) -> list[tuple[int, TensorRecord]]:
    """What goes into the first step of the side, in every pass; the layer's own input where there is no embedding."""
    for part in ("patches", "words"):
        steps = journey.steps(f"{journey.side}.embedding.{part}")
        found: list[tuple[int, TensorRecord]] = []
        for number, step in steps:
            first = next((record for record in step.inputs if record.role == "ids"), None) or next(
                (record for record in step.inputs if record.role != "parameter"), None
            )
            found += [(number, first)] if first is not None else []
        if found:
            return found
    for path in (f"{journey.side}.embedding.add", journey.layer):
        listed = [(number, step.inputs[0]) for number, step in journey.steps(path) if step.inputs]
        if listed:
            return listed
    return []


def id_rows(record: TensorRecord | None) -> list[str]:
    """The first rows of ids, where their values were kept."""
    preview = record.preview if record is not None and record.role == "ids" else None
    if preview is None or len(preview.shape) != 2:
        return []
    rows = preview.rows()
    return [" ".join(str(value) for value in row) for row in rows[:MOST_ROWS]]


def ids_height(tale: Tale) -> float:
    """How much room the ids below the inputs take."""
    rows = 0
    for side in tale.sides:
        for journey in tale.journeys(side):
            records = entering(journey)
            rows = max(rows, len(id_rows(records[0][1])) if records else 0)
    return rows * LINE


def patches_label(journey: Journey) -> str:
    """What makes vectors of pictures or sounds."""
    step = journey.step(f"{journey.side}.embedding.patches")
    if step is not None and step.inputs and len(step.inputs[0].shape) == 4:
        return "PATCHES TO VECTORS"
    return "CONVOLUTION" if step is not None and "conv" in f"{step.op} {step.module}".lower() else "TO VECTORS"


def embed_label(journey: Journey) -> str:
    scaled = journey.step(f"{journey.side}.embedding.scale")
    return "EMBED" if scaled is None else "EMBED, SCALED"


def draw_places(canvas: Canvas, plan: Plan, column: Column, journey: Journey, x: float) -> Box:
    """The sum of vectors and places, with the places beside it where there is room."""
    frame, detailed = column.frame, journey is column.main
    path, row = f"{journey.side}.embedding", plan.entrance["plus"]
    surface = journey.side if detailed else "inference"
    summed = f"{path}.add" if journey.steps(f"{path}.add") else f"{path}.positions"
    sign = canvas.add(
        Box(
            journey.identity(summed) if summed.endswith("add") else f"plus_{journey.side}_{journey.phase}",
            x,
            row.y,
            22,
            22,
            (words("+", 16, "text", "bold"),),
            surface,
            shape="circle",
            kind=f"step {journey.phase} {journey.side}" if summed.endswith("add") else "input",
            tooltip=journey.tell(summed, f"{path}.dropout"),
            steps=journey.identities(f"{path}.add", f"{path}.dropout"),
        )
    )
    if detailed:
        left = x + 26
        wide = frame.detail_right - left + 4
        node = draw_node(
            canvas,
            journey,
            f"{path}.positions",
            row,
            left + wide / 2,
            wide,
            "POSITIONS",
            surface=surface,
            form="three",
        )
        if node is not None:
            canvas.line((node.left, row.y), (sign.right, row.y), role=journey.phase, width=1.6)
    dropped = column.dropout(f"{path}.dropout")
    if detailed and dropped:
        canvas.note(x + 8, plan.frame_bottom - 2, (words(dropped, NOTE, "quiet"),))
    return sign


def enter_frame(canvas: Canvas, plan: Plan, journey: Journey, x: float, start: float, *, detailed: bool) -> None:
    """The line from the last node below a frame, across the frame's edge, to the layer's input."""
    dashed, edge = journey.phase == "inference", plan.frame_bottom
    rows = next(iter(plan.flanks[journey.side].stacks.values())).rows
    canvas.line((x, start), (x, edge - 2), role=journey.phase, width=2, dashed=dashed, head=False)
    inner = journey.side if detailed else "inference_on_panel"
    canvas.line((x, edge + PANEL_PAD), (x, rows["input"].bottom), role=inner, width=2, dashed=dashed)


def caption_line(journey: Journey) -> Line:
    """What is written under a column: its phase, and how many sequences go through at a time."""
    accent = f"accent:{journey.phase}"
    batch = journey.last.sizes.get("batch")
    phase = Run(journey.phase.upper(), LABEL + 1, accent, "bold")
    return (phase, Run(f"  batch {batch}", LABEL - 1, accent)) if batch else (phase,)
