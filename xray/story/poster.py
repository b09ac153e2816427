"""The whole poster: every part put in its place on one grid."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.trace import Trace
from xray.story.batch import words_height
from xray.story.canvas import Canvas
from xray.story.column import Column, make_column
from xray.story.compare.marks import Marks
from xray.story.compare.outlines import card_blocks, card_height, list_names, outline_marks
from xray.story.entrance import draw_entrance
from xray.story.exit import draw_exit
from xray.story.flows import LIFT, draw_backprop, draw_loop, draw_ribbon, tell_gradients
from xray.story.greedy import QUESTION_LINES, lines_of_turns
from xray.story.journey import SIDES, Tale, read_tale
from xray.story.layout import Layout, Measure
from xray.story.ledgers import draw_ledger
from xray.story.plan import Plan, Sizes, make_plan
from xray.story.plan_widths import measure_tale
from xray.story.rows import rows_of_exit, rows_of_side
from xray.story.sheet.compose import compose_sheet
from xray.story.sides import draw_side, upper_layers
from xray.story.top import draw_top, upper_right
from xray.story.tower import need_towers, wanted_height

USUAL_UPPER_LEFT = 810.0
"""How high title, reading order, formulas, attention pictures and the arch of memory stand above the encoder."""


def compose_poster(
    trace: Trace, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None
) -> Layout | None:
    """The poster of a trace of a transformer, X-Ray's own or another one; None for any other trace.

    Layers that are alike stand as one unless all are asked for. The steps in `marks` are outlined and listed.
    """
    tale = read_tale(trace)
    if tale is not None:
        return compose_tale(tale, measure, all_layers=all_layers, marks=marks)
    if marks is not None and marks.role == "failure":
        return None
    return compose_sheet(trace, measure, marks=marks)


def compose_tale(tale: Tale, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None) -> Layout:
    """The poster of X-Ray's own transformer."""
    canvas = Canvas(measure)
    plan, columns = plan_poster(canvas, tale, marks, all_layers=all_layers)
    for column in columns:
        draw_ledger(canvas, plan, column)
    results = {column.side: draw_side(canvas, plan, column) for column in columns}
    encoder, decoder = columns
    crown = draw_ribbon(canvas, plan, encoder, decoder, results["encoder"])
    for column in columns:
        draw_entrance(canvas, plan, column)
    ends = draw_exit(canvas, plan, decoder, results["decoder"])
    if "loss" in ends and tale.goes_back:
        draw_backprop(canvas, plan, ends["loss"], decoder)
    if "word" in ends:
        draw_loop(canvas, plan, ends["word"], decoder)
    listed = draw_top(canvas, plan, tale, columns, crown, marks, tell_gradients(decoder))
    if marks is not None:
        layers = first_layers(columns)
        outline_marks(canvas, marks, listed, lambda mark: list_names(mark, layers))
    return canvas.finish(plan.width, plan.height, tale.trace.title, describe_poster(tale))


def plan_poster(
    canvas: Canvas, tale: Tale, marks: Marks | None, *, all_layers: bool
) -> tuple[Plan, tuple[Column, ...]]:
    """The grid and its columns; where layers stand apart or steps are marked, the page grows for their cards."""
    sizes = read_sizes(tale, canvas.measure)
    plan = make_plan(sizes)
    columns = [make_column(tale, side, flank.frame, all_layers=all_layers) for side, flank in plan.flanks.items()]
    if upper_layers(columns[-1]) is not None:
        sizes = replace(sizes, out=("layers", *sizes.out))
    if need_towers(columns):
        wanted = USUAL_UPPER_LEFT + wanted_height(canvas, columns, plan.info[1]) + LIFT + 14
        sizes = replace(sizes, upper_left=wanted)
    if marks is not None:
        _, width = upper_right(plan)
        sizes = replace(sizes, upper_right=card_height(card_blocks(canvas, marks, width)) + 22)
    plan = make_plan(sizes)
    return plan, tuple(replace(column, frame=plan.flanks[column.side].frame) for column in columns)


def first_layers(columns: Sequence[Column]) -> dict[str, str]:
    """For each layer's path, the path of the layer that is shown for it."""
    return {
        f"{column.side}.layers.{layer}": f"{column.side}.layers.{group.first}"
        for column in columns
        for group in column.groups
        for layer in group.layers
    }


def read_sizes(tale: Tale, measure: Measure) -> Sizes:
    """What the contents ask of the grid."""
    triple, detail, brief = measure_tale(tale, measure)
    rows = max(len(one.first.tokens.get("src", ())) for one in tale.encoder)
    if "inference" in tale.phases:
        rows = max(rows, QUESTION_LINES, lines_of_turns(tale.decoder[-1]))
    return Sizes(
        detail=detail,
        triple=triple,
        brief=brief + 26 if len(tale.phases) == 2 else 132,
        ledger=124,
        words=words_height(rows),
        rows={side: rows_of_side(tale, side) for side in SIDES},
        out=rows_of_exit(tale),
        loop="inference" in tale.phases,
        stairwell="training" in tale.phases,
    )


def describe_poster(tale: Tale) -> str:
    """What the poster shows, for those who hear it."""
    sizes = tale.trace.sizes
    phases = " and ".join(tale.phases)
    return (
        f"An encoder-decoder transformer from bottom to top, {phases}: encoder left, decoder right, joined by keys and "
        f"values. Batch {sizes.get('batch')}, {sizes.get('heads')} heads, "
        f"{sizes.get('encoder_layers')} + {sizes.get('decoder_layers')} layers, d_model {sizes.get('d_model')}, "
        f"output vocabulary {sizes.get('tgt_vocab')}. Every box names its step, shapes and axes."
    )
