"""The data at the foot of the poster: words, ids, masks, embeddings and positions (stations 1 and 4)."""

from xray.story.batch import draw_batch, draw_reads_and_says
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.greedy import draw_turns
from xray.story.journey import Journey
from xray.story.layout import Box, Cells, Line, Run
from xray.story.nodes import draw_node
from xray.story.plan import EMBED_WIDTH, LABEL, NOTE, OP, PANEL_PAD, Plan
from xray.story.shapes import digits
from xray.story.sides import draw_station

MOST_CELLS = 24


def draw_entrance(canvas: Canvas, plan: Plan, column: Column) -> None:
    """Everything under one frame, for the detailed journey and for the brief one."""
    frame = column.frame
    encoder = column.side == "encoder"
    ledger = plan.flanks[column.side].ledger
    left = ledger[0] if ledger[1] < frame.left else plan.stairwell + 30
    far = ledger[1] if ledger[0] > frame.right else plan.stairwell - 16
    training_alone = column.brief is None and column.main.phase == "training"
    right = frame.brief_left - 12 if column.brief is not None or (training_alone and not encoder) else far
    draw_caption(canvas, plan, column.main, frame.centre)
    number = 1 if encoder else 4
    draw_station(canvas, left + (15 if encoder else 24), plan.captions.y + 2, number)
    if column.main.phase == "training":
        draw_batch(canvas, plan, column, left, right)
        if training_alone and not encoder:
            draw_reads_and_says(canvas, plan, column, frame.brief_left + 14, far)
    else:
        draw_turns(canvas, plan, column.main, column, left, right, frame.centre)
    draw_mask_beside(canvas, plan, column)
    draw_embedding(canvas, plan, column.main, column, frame.centre)
    if column.brief is not None:
        draw_caption(canvas, plan, column.brief, frame.brief)
        draw_turns(canvas, plan, column.brief, column, frame.brief_left - 4, far, frame.brief)
        draw_embedding(canvas, plan, column.brief, column, frame.brief)


def draw_caption(canvas: Canvas, plan: Plan, journey: Journey, x: float) -> None:
    canvas.note(x, plan.captions.y + 8, (caption_line(journey),), align="center")


def caption_line(journey: Journey) -> Line:
    """What is written under a column: its phase, and how many sequences go through at a time."""
    accent = f"accent:{journey.phase}"
    phase = Run(journey.phase.upper(), LABEL + 1, accent, "bold")
    return (phase, Run(f"  batch {journey.last.sizes.get('batch')}", LABEL - 1, accent))


def draw_embedding(canvas: Canvas, plan: Plan, journey: Journey, column: Column, x: float) -> None:
    """From ids to vectors: the embedding, its scale, and the positions added to it."""
    side, detailed = journey.side, journey is column.main
    frame = column.frame
    row, plus = plan.entrance["embed"], plan.entrance["plus"]
    role: str = journey.phase
    path = f"{side}.embedding"
    scaled = journey.step(f"{path}.scale")
    width = EMBED_WIDTH if detailed else frame.brief_right - frame.brief_left
    surface = side if detailed else "inference"
    formula = str(scaled.settings.get("formula", "")) if scaled is not None else ""
    name = "EMBED" + (" × √d_model" if formula == "sqrt(d_model)" and detailed else "")
    box = draw_node(
        canvas,
        journey,
        f"{path}.words",
        row,
        x,
        width,
        name,
        surface=surface,
        form="three" if detailed else "brief",
        also=(f"{path}.scale",) if scaled else (),
    )
    sign = canvas.add(
        Box(
            journey.identity(f"{path}.add"),
            x,
            plus.y,
            22,
            22,
            (words("+", 16, "text", "bold"),),
            surface,
            shape="circle",
            kind=f"step {journey.phase} {side}",
            tooltip=journey.tell(f"{path}.add", f"{path}.dropout"),
            steps=journey.identities(f"{path}.add", f"{path}.dropout"),
        )
    )
    if box is None:
        return
    dropped = column.dropout(f"{path}.dropout")
    if detailed and dropped:
        canvas.note(x + 8, plan.frame_bottom - 2, (words(dropped, NOTE, "quiet"),))
    dashed = journey.phase == "inference"
    canvas.line((x, plan.ids.top + (4 if detailed else 6)), (x, box.bottom), role=role, width=2, dashed=dashed)
    canvas.line((x, box.top), (x, sign.bottom), role=role, width=2, dashed=dashed)
    edge, rows = plan.frame_bottom, plan.flanks[side].stacks["self_attention"].rows
    canvas.line((x, sign.top), (x, edge - 2), role=role, width=2, dashed=dashed, head=False)
    inner = side if detailed else "inference_on_panel"
    canvas.line((x, edge + PANEL_PAD), (x, rows["input"].bottom), role=inner, width=2, dashed=dashed)
    positions = f"{path}.positions"
    if detailed:
        left = x + 26
        wide = frame.detail_right - left + 4
        node = draw_node(
            canvas,
            journey,
            positions,
            plus,
            left + wide / 2,
            wide,
            "POSITIONS",
            surface=surface,
            form="three",
        )
        if node is not None:
            canvas.line((node.left, plus.y), (sign.right, plus.y), role=role, width=1.6)


def draw_mask_beside(canvas: Canvas, plan: Plan, column: Column) -> None:
    """The mask of the detailed journey, cell by cell, left of the embedding."""
    journey, frame = column.main, column.frame
    path = "src_mask" if column.side == "encoder" else "tgt_mask.combine"
    if journey.phase == "inference":
        return
    steps = journey.steps(path)
    shape = journey.output(path)
    facts = steps[-1][1].outputs[0].mask if steps else None
    if facts is None or shape is None:
        return
    left, right = frame.left - 8, frame.centre - EMBED_WIDTH / 2 - 12
    bottom = plan.ids.top + 12
    title = (Run("MASK ", OP, "text", "bold"), *digits(shape, LABEL))
    if not facts.cells:
        remark = (
            words(f"{facts.hidden_share:.0%} of it hidden,", NOTE, "quiet"),
            words("too large to draw", NOTE, "quiet"),
        )
        canvas.note(left, bottom + 60, (title, *remark))
        return
    rows, remark_text = mask_rows(facts.cells)
    room = plan.frame_bottom - 8 - bottom - 30
    cell = min(11.0, (right - left) / max(len(row) for row in rows), room / len(rows))
    parts = () if column.side == "encoder" else ("tgt_mask.padding", "tgt_mask.causal")
    tooltip = journey.tell(*parts, path)
    stands_for = journey.identities(*parts, path)
    grid = Cells(f"mask_{column.side}", left, bottom + cell * len(rows), cell, rows, "mask", tooltip, stands_for)
    canvas.cells.append(grid)
    lines = (title, words(remark_text, NOTE, "quiet"))
    canvas.note(left, grid.y + 29, lines, tooltip=journey.tell(path))


def mask_rows(cells: tuple[tuple[str, ...], ...]) -> tuple[tuple[tuple[str | None, ...], ...], str]:
    """Which cells are drawn: one line for each sequence, or the square of one answer that has padding."""
    if all(len(matrix) == 1 for matrix in cells):
        drawn = tuple(tuple(matrix[0][:MOST_CELLS]) for matrix in cells[:MOST_CELLS])
        whole = len(cells) <= MOST_CELLS and len(cells[0][0]) <= MOST_CELLS
        return drawn, "one row per question" if whole else "the first corner"
    chosen = next((place for place, matrix in enumerate(cells) if any("p" in row or "b" in row for row in matrix)), 0)
    drawn = tuple(tuple(row[:MOST_CELLS]) for row in cells[chosen][:MOST_CELLS])
    whole = len(cells[chosen]) <= MOST_CELLS
    return drawn, f"answer {chosen + 1} of {len(cells)}" + ("" if whole else ", corner")
