"""The whole poster: every part put in its place on one grid."""

from xray.ir.trace import Trace
from xray.story.batch import words_height
from xray.story.canvas import Canvas
from xray.story.column import make_column
from xray.story.entrance import draw_entrance
from xray.story.exit import draw_exit
from xray.story.flows import draw_backprop, draw_loop, draw_ribbon, tell_gradients
from xray.story.formulas import draw_formulas
from xray.story.gallery import draw_gallery
from xray.story.greedy import QUESTION_LINES, lines_of_turns
from xray.story.heading import draw_legend, draw_reading, draw_title, reading_width
from xray.story.journey import Tale, read_tale
from xray.story.layout import Layout, Line, Measure
from xray.story.ledgers import draw_ledger
from xray.story.plan import MARGIN, Plan, Sizes, make_plan, measure_tale
from xray.story.sides import draw_side


def compose_poster(trace: Trace, measure: Measure) -> Layout | None:
    """The poster of a trace of X-Ray's transformer; None for any other trace."""
    tale = read_tale(trace)
    if tale is None:
        return None
    plan = make_plan(read_sizes(tale, measure))
    canvas = Canvas(measure)
    encoder, decoder = make_column(tale, "encoder", plan.encoder), make_column(tale, "decoder", plan.decoder)
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
    draw_upper_left(canvas, plan, tale, crown, tell_gradients(decoder))
    return canvas.finish(plan.width, plan.height, trace.title, describe_poster(tale))


def draw_upper_left(canvas: Canvas, plan: Plan, tale: Tale, crown: float, gradients: tuple[Line, ...]) -> None:
    """Title, reading order, legend, formulas and attention pictures, in the room above the encoder."""
    left = plan.encoder_ledger[0]
    right = plan.stairwell - 26
    width = right - left
    y = draw_title(canvas, tale, left, right, plan.height - MARGIN, gradients) - 14
    reading = min(width * 0.5, reading_width(canvas, tale))
    low = draw_reading(canvas, tale, left, y, reading)
    legend = draw_legend(canvas, tale, left + reading + 18, y, width - reading - 18)
    y = draw_formulas(canvas, tale, left, min(low, legend) - 8, width)
    draw_gallery(canvas, tale, left, y - 14, width, crown + 10)


def read_sizes(tale: Tale, measure: Measure) -> Sizes:
    """What the contents ask of the grid."""
    triple, detail, brief = measure_tale(tale, measure)
    training = "training" in tale.phases
    tale.decoder[0]
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
