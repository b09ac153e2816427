"""The whole poster: every part put in its place on one grid."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.trace import Trace
from xray.story.batch import words_height
from xray.story.canvas import Canvas
from xray.story.column import Column, make_column
from xray.story.entrance import draw_entrance
from xray.story.exit import draw_exit
from xray.story.flows import LIFT, draw_backprop, draw_hidden_memory, draw_loop, draw_ribbon, tell_gradients
from xray.story.greedy import QUESTION_LINES, lines_of_turns
from xray.story.info import Info, apart_height, draw_info, parts_height
from xray.story.intake import ids_height
from xray.story.journey import Tale, read_tale
from xray.story.layout import Layout, Measure
from xray.story.ledgers import draw_ledger
from xray.story.marking import Locate, card_blocks, card_height, outline_marks
from xray.story.marks import Marks
from xray.story.plan import MARGIN, Plan, Sizes, make_plan
from xray.story.plan_widths import measure_tale
from xray.story.retold_tale import RetoldTale, locate, read_retold
from xray.story.rows import is_bare, rows_of_entry, rows_of_exit, rows_of_side
from xray.story.sides import draw_side, upper_layers
from xray.story.top import draw_top, upper_right
from xray.story.tower import need_towers, wanted_height

USUAL_UPPER_LEFT = 810.0
"""How high title, reading order, formulas, attention pictures and the arch of memory stand above the encoder."""

ARCH, FAR = 180.0, 10_000.0
"""How high memory's arch is with a norm under it, and a floor that nothing reaches."""


def compose_poster(
    trace: Trace, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None
) -> Layout | None:
    """The poster of a trace of a transformer, X-Ray's own or another one; None for any other trace.

    Layers that are alike stand as one unless all are asked for. The steps in `marks` are outlined and listed.
    """
    tale = read_tale(trace)
    if tale is not None:
        return compose_tale(tale, measure, all_layers=all_layers, marks=marks)
    retold = read_retold(trace)
    if retold is None or hides_failure(retold, marks):
        return None
    return compose_retold(retold, measure, all_layers=all_layers, marks=marks)


def hides_failure(retold: RetoldTale, marks: Marks | None) -> bool:
    """Whether a step failed that was not recognised: a poster could not show it, so another drawing has to."""
    if marks is None or marks.role != "failure":
        return False
    where = locate(retold)
    told = {(one.kind, one.number, step.id) for one in retold.tale.trace.passes for step in one.leaves if step.error}
    meant = map(where, marks.steps)
    return any((mark.kind, mark.number, mark.step) not in told for mark in meant)


def compose_retold(
    retold: RetoldTale, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None
) -> Layout:
    """The poster of another model's trace, told in the words of X-Ray's own; `marks` name the steps as recorded."""
    return compose_tale(retold.tale, measure, all_layers=all_layers, marks=marks, where=locate(retold))


def compose_tale(
    tale: Tale, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None, where: Locate | None = None
) -> Layout:
    """The poster of a tale; `where` tells which step of it each mark means, where marks have other names."""
    canvas = Canvas(measure)
    plan, columns = plan_poster(canvas, tale, marks, all_layers=all_layers)
    for column in columns:
        draw_ledger(canvas, plan, column)
    results = {column.side: draw_side(canvas, plan, column) for column in columns}
    crown = (
        draw_ribbon(canvas, plan, columns[0], columns[1], results["encoder"]["feed_forward"])
        if len(columns) == 2
        else 0.0
    )
    if len(columns) == 1 and "cross_attention" in plan.flanks[columns[0].side].stacks:
        draw_hidden_memory(canvas, plan, columns[0])
    for column in columns:
        draw_entrance(canvas, plan, column)
    last = columns[-1]
    ends = draw_exit(canvas, plan, last, results[last.side]["feed_forward"])
    if "loss" in ends and tale.goes_back:
        draw_backprop(canvas, plan, ends["loss"], last)
    if "word" in ends:
        draw_loop(canvas, plan, ends["word"], last)
    if tale.is_retold:
        info, right = infos_of(plan, tale, columns, marks)
        floors = (crown + 10 if plan.floor is None else plan.floor, top_of_exit(plan) + 40)
        listed = draw_info(canvas, info, right, plan.height - MARGIN, floors)
    else:
        listed = draw_top(canvas, plan, tale, columns, crown, marks, tell_gradients(last))
    if marks is not None:
        outline_marks(canvas, marks, listed, first_layers(columns), where)
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
    if tale.is_retold:
        info, right = infos_of(plan, tale, columns, marks)
        if right is None:
            sizes = replace(sizes, info=parts_height(canvas, info.parts(-FAR)) + 2 * MARGIN + 8)
        else:
            high = apart_height(canvas, right)
            upper = parts_height(canvas, info.leading(-FAR)) + ARCH + MARGIN
            sizes = replace(sizes, upper_left=upper, upper_right=high + 34 if high else 0.0)
    elif need_towers(columns):
        wanted = USUAL_UPPER_LEFT + wanted_height(canvas, columns, plan.info[1]) + LIFT + 14
        sizes = replace(sizes, upper_left=wanted)
    if marks is not None and not tale.is_retold:
        _, width = upper_right(plan)
        sizes = replace(sizes, upper_right=card_height(card_blocks(canvas, marks, width)) + 22)
    plan = make_plan(sizes)
    return plan, tuple(replace(column, frame=plan.flanks[column.side].frame) for column in columns)


def infos_of(plan: Plan, tale: Tale, columns: Sequence[Column], marks: Marks | None) -> tuple[Info, Info | None]:
    """What is told of another model, and where; of two sides some of it above the decoder."""
    info = Info(tale, columns, marks, *plan.info, tell_gradients(columns[-1]))
    return info, replace(info, left=upper_right(plan)[0], width=upper_right(plan)[1]) if len(columns) == 2 else None


def top_of_exit(plan: Plan) -> float:
    """The height of the topmost node of what leaves the model."""
    return max((row.top for row in plan.out.values()), default=list(plan.flanks.values())[-1].top + 34)


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
    bare = is_bare(tale)
    rows = max((len(one.first.tokens.get("src", ())) for one in tale.encoder), default=1)
    if "inference" in tale.phases and tale.decoder:
        rows = max(rows, QUESTION_LINES, lines_of_turns(tale.decoder[-1]))
    return Sizes(
        detail=detail,
        triple=triple,
        brief=brief + 26 if len(tale.phases) == 2 else 132,
        ledger=124,
        words=0.0 if bare else words_height(rows),
        ids=ids_height(tale) if bare else 142,
        mask=0.0 if bare and len(tale.sides) == 1 else 139,
        rows={side: rows_of_side(tale, side) for side in tale.sides},
        entry=rows_of_entry(tale),
        out=rows_of_exit(tale),
        loop="inference" in tale.phases,
        stairwell="training" in tale.phases,
    )


def describe_poster(tale: Tale) -> str:
    """What the poster shows, for those who hear it."""
    sizes = tale.trace.sizes
    phases = " and ".join(tale.phases)
    if len(tale.sides) == 2:
        layers = f"{sizes.get('encoder_layers')} + {sizes.get('decoder_layers')} layers"
        what = f"An encoder-decoder transformer from bottom to top, {phases}: encoder left, decoder right, "
        what += "joined by keys and values. "
    else:
        layers = f"{len(tale.journeys(tale.sides[0])[0].layers)} layers"
        what = f"A transformer with {tale.sides[0]} layers alone, from bottom to top, {phases}. "
    vocabulary = f", output vocabulary {sizes['tgt_vocab']}" if sizes.get("tgt_vocab") else ""
    return (
        f"{what}Batch {sizes.get('batch')}, {sizes.get('heads')} heads, {layers}, "
        f"d_model {sizes.get('d_model')}{vocabulary}. Every box names its step, shapes and axes."
    )
