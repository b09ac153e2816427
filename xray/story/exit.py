"""The top of the decoder (station 8): the loss in training; last row, softmax and argmax at inference."""

from itertools import pairwise

from xray.config import PAD, SPECIAL_TOKENS
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.journey import Journey
from xray.story.layout import Box, Run
from xray.story.nodes import draw_node
from xray.story.plan import DIGIT, LABEL, NOTE, OP, Plan, Row
from xray.story.shapes import digits
from xray.story.sides import draw_station, draw_upper
from xray.story.wording import fit_text, wrap_words
from xray.text import show_controls

MOST_CHANCES, CHANCE = 5, 15.0


def draw_exit(canvas: Canvas, plan: Plan, column: Column, last: Box) -> dict[str, Box]:
    """What leaves the last layer; gives the boxes "loss" and "word" that the long ways round start from."""
    ends: dict[str, Box] = {}
    journeys = ((column.main, column.frame.centre, True),) + (
        ((column.brief, column.frame.brief, False),) if column.brief is not None else ()
    )
    for journey, x, detailed in journeys:
        head = draw_head(canvas, plan, column, journey, x, last, detailed=detailed)
        if head is None or journey.output("head") is None:
            continue
        if journey.phase == "inference":
            ends["word"] = draw_choice(canvas, plan, column, journey, head, detailed)
        elif journey.output("loss.flatten_logits") is not None or journey.steps("loss.cross_entropy"):
            ends["loss"] = draw_loss(canvas, plan, column, journey, head)
    return ends


def draw_head(
    canvas: Canvas, plan: Plan, column: Column, journey: Journey, x: float, last: Box, *, detailed: bool
) -> Box | None:
    """The last norm, where there is one, and the linear layer to the vocabulary; None where that did not run."""
    width = 230.0 if detailed else column.frame.brief_right - column.frame.brief_left
    surface = column.side if detailed else "inference"
    form = "wide" if detailed else "brief"
    dashed, role = journey.phase == "inference", journey.phase
    told, name = (column.params("head"), "LINEAR TO VOCABULARY") if detailed else ("", "LINEAR")
    head = draw_node(canvas, journey, "head", plan.out["head"], x, width, name, surface=surface, form=form, extra=told)
    if head is None:
        return None
    label, norm = "LAST LAYER NORM" if detailed else "NORM", None
    upper = draw_upper(canvas, column, journey, plan.out["layers"]) if "layers" in plan.out else None
    if "norm" in plan.out:
        norm = draw_node(canvas, journey, "decoder.norm", plan.out["norm"], x, width, label, surface=surface, form=form)
    rising = [box for box in (upper, norm, head) if box is not None]
    for lower, higher in pairwise(rising):
        canvas.line((x, lower.top), (x, higher.bottom), role=role, width=2, dashed=dashed)
    top = plan.flanks[column.side].top
    canvas.line(
        (x, last.top),
        (x, top - 9),
        role=column.side if detailed else "inference_on_panel",
        width=2,
        dashed=dashed,
        head=False,
    )
    canvas.line((x, top + 3), (x, rising[0].bottom), role=role, width=2, dashed=dashed)
    return head


def draw_loss(canvas: Canvas, plan: Plan, column: Column, journey: Journey, head: Box) -> Box:
    """Predictions and targets flattened, and the one number that training makes smaller."""
    row, x, role = plan.out["last_row"], column.frame.centre, journey.phase
    surface, outline = ("training", None) if role == "training" else ("card", role)
    wide, low = 216.0, 112.0
    middle, left = x + 31, x + 31 - wide / 2 - 12 - low / 2
    flat, targets = (
        draw_node(canvas, journey, f"loss.flatten_{part}", row, at, width, label, surface=surface, outline=outline)
        for part, at, width, label in (
            ("logits", middle, wide, "PREDICTIONS"),
            ("targets", left, low, "TARGETS"),
        )
    )
    band = Row(
        (plan.out["softmax"].bottom + plan.out["argmax"].top) / 2, plan.out["argmax"].top - plan.out["softmax"].bottom
    )
    is_made = journey.output("loss.cross_entropy") is not None
    remarks = tell_loss(journey) if is_made else ["no number came out"]
    lines = (
        (Run("CROSS ENTROPY", OP + 1, "text", "bold"), Run("  the loss", NOTE, "quiet")),
        (Run(loss_value(journey) if is_made else "failed", DIGIT + 6, "text", "bold"),),
        *(words(line, NOTE, "quiet") for line in remarks),
    )
    centre = (middle + wide / 2 + left - low / 2) / 2
    height = min(band.height, 63 + 13 * len(remarks))
    loss = canvas.add(
        Box(
            journey.identity("loss.cross_entropy"),
            centre,
            band.bottom + height / 2,
            wide + low + 12,
            height,
            lines,
            surface if is_made else "failure",
            outline=outline if is_made else None,
            kind=f"step {role} decoder",
            tooltip=journey.tell("loss.cross_entropy"),
            steps=journey.identities("loss.cross_entropy"),
        )
    )
    for lower, upper in pairwise([head, *([flat] if flat is not None else []), loss]):
        canvas.line((x, lower.top), (x, upper.bottom), role=role, width=2)
    if targets is not None:
        canvas.line((left, targets.top), (left, loss.bottom), role=role, width=2)
        shape = journey.output("shift", 1)
        if shape is not None:
            line = (*digits(shape, LABEL), Run(" flattened", NOTE, "quiet"))
            canvas.note(targets.left, targets.bottom - 3, (line,))
    draw_station(canvas, loss.right - 6, loss.top - 4, 8)
    return loss


def tell_loss(journey: Journey) -> list[str]:
    """Over what the loss is the mean, where words tell, and whether its targets are smoothed."""
    places, heard = count_targets(journey)
    told = f"mean over {heard} of {places} places; {places - heard} are {SPECIAL_TOKENS[PAD]}, ignored"
    step = journey.step("loss.cross_entropy")
    share = step.settings.get("label_smoothing") if step is not None else None
    smooth = isinstance(share, float) and share > 0
    return [
        *([told] if places else []),
        *([f"label smoothing {share:g}: that share of each target is spread over all words"] if smooth else []),
    ]


def loss_value(journey: Journey) -> str:
    step = journey.step("loss.cross_entropy")
    preview = step.outputs[0].preview if step is not None and step.outputs else None
    if preview is None or not preview.values:
        return "one number"
    value = preview.values[0]
    return value if isinstance(value, str) else f"{value:.4f}"


def count_targets(journey: Journey) -> tuple[int, int]:
    """How many places have a target, and how many of those are words."""
    rows = journey.first.tokens.get("targets", ())
    padding = SPECIAL_TOKENS[PAD]
    return sum(len(row) for row in rows), sum(word != padding for row in rows for word in row)


def draw_choice(canvas: Canvas, plan: Plan, column: Column, journey: Journey, head: Box, detailed: bool) -> Box:
    """From the logits of all places to one new word."""
    steps = (
        ("last_row", "next_word.last_row", "LAST ROW ONLY"),
        ("softmax", "next_word.softmax", "SOFTMAX"),
        ("argmax", "next_word.argmax", "ARGMAX"),
    )
    below = head
    for row, path, name in steps:
        box = draw_node(
            canvas,
            journey,
            path,
            plan.out[row],
            head.x,
            head.width,
            name,
            surface="inference",
            form="wide" if detailed else "brief",
        )
        if box is not None:
            canvas.line((head.x, below.top), (head.x, box.bottom), role="inference", width=2, dashed=True)
            below = box
    if detailed:
        draw_station(canvas, below.left - 24, plan.out["softmax"].y, 8)
    draw_said(canvas, plan, column, journey, below)
    return below


def draw_said(canvas: Canvas, plan: Plan, column: Column, journey: Journey, word: Box) -> None:
    """The words that the turns said, one after the other."""
    spoken = [next(iter(one_pass.tokens.get("new", ())), ()) for one_pass in journey.passes]
    said = [show_controls(row[0]) for row in spoken if row]
    left = word.right + 12
    right = plan.loop - 16
    lines = [words("NEW WORDS, TURN BY TURN", NOTE, "accent:inference", "bold")]
    lines += [words(line, LABEL) for line in wrap_words(said, LABEL, right - left, canvas.measure, 4)]
    box = canvas.note(left, word.y - 12, tuple(lines))
    draw_chances(canvas, journey, left, right, box.bottom - 8, plan.flanks[column.side].top + 34)


def draw_chances(canvas: Canvas, journey: Journey, left: float, right: float, top: float, bottom: float) -> None:
    """The likeliest words of the first turn, as many as there is room for."""
    listed = likeliest(journey)
    room = min(len(listed), MOST_CHANCES, int((top - bottom) / CHANCE) - 1)
    if room < 1:
        return
    canvas.note(left, top, (words("TURN 1 COULD HAVE SAID", NOTE, "accent:inference", "bold"),))
    for place, (word, chance) in enumerate(listed[:room]):
        y = top - (place + 1) * CHANCE
        shown = fit_text(word, NOTE, 62, canvas.measure)
        canvas.note(left, y, (words(shown, NOTE),))
        full = right - left - 66 - 40
        canvas.panel(left + 66, y - 10, left + 66 + max(2.0, full * chance), y - 3, "line:inference", 2)
        canvas.note(right, y, (words(f"{chance:.1%}", NOTE, "quiet"),), align="right")


def likeliest(journey: Journey) -> list[tuple[str, float]]:
    """The first turn's best words with their chances, where they were kept; the argmax first."""
    step = journey.first.by_id.get("next_word.softmax#0")
    preview = step.outputs[0].preview if step is not None and step.outputs else None
    named = journey.first.tokens.get("candidates", ((),))[0]
    if preview is None:
        return []
    chances = sorted((float(value) for value in preview.values if not isinstance(value, str)), reverse=True)
    return [(show_controls(word), chance) for word, chance in zip(named, chances, strict=False)]
