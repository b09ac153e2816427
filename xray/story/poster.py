"""The whole poster: every part put in its place on one grid."""

from dataclasses import replace

from xray.ir.trace import Trace
from xray.story.batch import words_height
from xray.story.canvas import Canvas
from xray.story.column import Column, make_column
from xray.story.entrance import draw_entrance
from xray.story.exit import draw_exit
from xray.story.flows import draw_backprop, draw_loop, draw_ribbon, tell_gradients
from xray.story.formulas import draw_formulas
from xray.story.gallery import draw_gallery
from xray.story.greedy import QUESTION_LINES, lines_of_turns
from xray.story.heading import draw_legend, draw_reading, draw_title, reading_width
from xray.story.journey import Side, Tale, read_tale
from xray.story.layout import Layout, Measure
from xray.story.ledgers import draw_ledger
from xray.story.marking import card_blocks, card_height, draw_marks_card, fit_blocks, outline_marks
from xray.story.marks import Marks
from xray.story.plan import MARGIN, Frame, Plan, Sizes, make_plan, measure_tale
from xray.story.sides import draw_side
from xray.story.tower import draw_towers, need_towers, wanted_height

USUAL_UPPER_LEFT = 810.0
"""How high title, reading order, formulas, attention pictures and the arch of memory stand above the encoder."""

FORMULAS_HEIGHT = 78.0


def compose_poster(
    trace: Trace, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None
) -> Layout | None:
    """The poster of a trace of X-Ray's transformer; None for any other trace.

    Layers that are alike stand as one unless all are asked for. The steps in `marks` are outlined and listed.
    """
    tale = read_tale(trace)
    if tale is None:
        return None
    canvas = Canvas(measure)
    plan, encoder, decoder = plan_poster(canvas, tale, marks, all_layers=all_layers)
    draw_ledger(canvas, plan, encoder)
    draw_ledger(canvas, plan, decoder)
    memory = draw_side(canvas, plan, encoder)["feed_forward"]
    result = draw_side(canvas, plan, decoder)["feed_forward"]
    crown = draw_ribbon(canvas, plan, encoder, decoder, memory)
    draw_entrance(canvas, plan, encoder)
    draw_entrance(canvas, plan, decoder)
    ends = draw_exit(canvas, plan, decoder, result)
    if "loss" in ends:
        draw_backprop(canvas, plan, ends["loss"], decoder)
    if "word" in ends:
        draw_loop(canvas, plan, ends["word"], decoder)
    listed = draw_top(canvas, plan, tale, (encoder, decoder), crown, marks)
    if marks is not None:
        outline_marks(canvas, marks, listed, first_layers((encoder, decoder)))
    return canvas.finish(plan.width, plan.height, trace.title, describe_poster(tale))


def plan_poster(canvas: Canvas, tale: Tale, marks: Marks | None, *, all_layers: bool) -> tuple[Plan, Column, Column]:
    """The grid and both columns; where layers stand apart or steps are marked, the page grows for their cards."""
    sizes = read_sizes(tale, canvas.measure)
    plan = make_plan(sizes)
    columns = [make_column(tale, side, frame, all_layers=all_layers) for side, frame in sides_of(plan)]
    if need_towers(columns):
        _, width = upper_left(plan)
        sizes = replace(sizes, upper_left=USUAL_UPPER_LEFT + wanted_height(canvas, columns, width) + 14)
    if marks is not None:
        _, width = upper_right(plan)
        sizes = replace(sizes, upper_right=card_height(card_blocks(canvas, marks, width)) + 22)
    plan = make_plan(sizes)
    encoder, decoder = (
        replace(column, frame=frame) for column, (_, frame) in zip(columns, sides_of(plan), strict=True)
    )
    return plan, encoder, decoder


def sides_of(plan: Plan) -> tuple[tuple[Side, Frame], tuple[Side, Frame]]:
    return ("encoder", plan.encoder), ("decoder", plan.decoder)


def upper_left(plan: Plan) -> tuple[float, float]:
    """Where the room above the encoder begins, and how wide it is."""
    left = plan.encoder_ledger[0]
    return left, plan.stairwell - 26 - left


def upper_right(plan: Plan) -> tuple[float, float]:
    """Where the room above the decoder begins, and how wide it is."""
    left = plan.stairwell + 40
    return left, plan.width - MARGIN - 8 - left


def draw_top(
    canvas: Canvas, plan: Plan, tale: Tale, columns: tuple[Column, Column], crown: float, marks: Marks | None
) -> int:
    """Everything above encoder and decoder; gives how many marks are listed.

    Top left the title, then reading order, legend, layers that stand apart, formulas and attention pictures; what there
    is no room for is left out, the last first. Marks are listed top right where the page could grow for them.
    """
    left, width = upper_left(plan)
    right = upper_right(plan)
    top, bottom, ceiling = plan.height - MARGIN, crown + 10, plan.out["argmax"].top + 24
    y = draw_title(canvas, tale, left, left + width, top, tell_gradients(columns[1])) - 14
    blocks = None
    if marks is not None:
        blocks = fit_blocks(canvas, marks, right[1], top - ceiling)
        if blocks is not None:
            draw_marks_card(canvas, marks, blocks, right[0], top, right[1])
            ceiling = top
        else:
            blocks = card_blocks(canvas, marks, width, 2)
            y = draw_marks_card(canvas, marks, blocks, left, y, width) - 14
    reading = min(width * 0.5, reading_width(canvas, tale))
    low = draw_reading(canvas, tale, left, y, reading)
    legend = draw_legend(canvas, tale, left + reading + 18, y, width - reading - 18, marks)
    y = min(low, legend) - 8
    if need_towers(columns):
        y = draw_towers(canvas, columns, left, y, width, bottom) - 10
    if y - FORMULAS_HEIGHT > bottom:
        y = draw_formulas(canvas, tale, left, y, width)
    if top - ceiling > y - bottom:
        (left, width), y, bottom = right, top + 14, ceiling
    draw_gallery(canvas, tale, left, y - 14, width, bottom)
    return sum(number > 0 for number, _ in blocks or ())


def first_layers(columns: tuple[Column, Column]) -> dict[str, str]:
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
    training = "training" in tale.phases
    rows = max((len(one.first.tokens.get("src", ())) for one in tale.encoder), default=1)
    if "inference" in tale.phases:
        rows = max(rows, QUESTION_LINES, lines_of_turns(tale.decoder[-1]))
    norm = [step.path for step in tale.encoder[0].first.steps if step.layer == tale.encoder[0].layers[0]]
    first = "encoder.layers.0"
    norm_first = norm.index(f"{first}.self_attention_norm") < norm.index(f"{first}.self_attention")
    return Sizes(
        detail=detail,
        triple=triple,
        brief=brief + 26 if len(tale.phases) == 2 else 132,
        ledger=124,
        words=words_height(rows),
        ids=142,
        mask=139,
        norm_first=norm_first,
        loop="inference" in tale.phases,
        stairwell=training,
    )


def describe_poster(tale: Tale) -> str:
    """What the poster shows, for those who hear it."""
    sizes = tale.trace.sizes
    return (
        f"An encoder-decoder transformer from bottom to top, {' and '.join(tale.phases)}: encoder left, decoder right, "
        f"joined by keys and values. Batch {sizes.get('batch')}, {sizes.get('heads')} heads, "
        f"{sizes.get('encoder_layers')} + {sizes.get('decoder_layers')} layers, d_model {sizes.get('d_model')}, "
        f"output vocabulary {sizes.get('tgt_vocab')}. Every box names its step, shapes and axes."
    )
