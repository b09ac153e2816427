"""The turns of a generation as a table: what each read, what the cache held, how many scores it computed."""

from xray.ir.trace import Pass
from xray.story.canvas import Canvas, words
from xray.story.intake import entering
from xray.story.journey import Journey, Tale
from xray.story.layout import Line, Run
from xray.story.plan import LABEL, NOTE
from xray.story.shapes import digits, read_shape

MOST = 8
STEP = 16.0


def has_turns(tale: Tale) -> bool:
    """Whether several turns were recorded of which no words are known."""
    return bool(told_journey(tale))


def told_journey(tale: Tale) -> Journey | None:
    for journey in tale.decoder:
        if journey.phase == "inference" and len(journey.passes) > 1 and not any(one.tokens for one in journey.passes):
            return journey
    return None


def draw_turn_table(canvas: Canvas, tale: Tale, left: float, top: float, width: float) -> float:
    """A card with a row for each turn, the middle of many left out; gives the height left below it."""
    journey = told_journey(tale)
    if journey is None:
        return top
    start = len(canvas.panels)
    heading = (
        Run("TURN BY TURN", LABEL - 1, "accent:inference", "bold"),
        Run(f"   {len(journey.passes)} turns", NOTE, "quiet"),
    )
    canvas.note(left + 14, top - 9, (heading,), "card")
    places = [left + 14 + (width - 28) * share for share in (0.0, 0.17, 0.40, 0.72)]
    y = top - 30
    for x, title in zip(places, ("turn", "reads", "keys to look at", "scores"), strict=True):
        canvas.note(x, y, (words(title, NOTE, "quiet", "semibold"),), "card")
    y -= STEP
    passes = list(journey.passes)
    shown = passes if len(passes) <= MOST else [*passes[: MOST - 2], passes[-1]]
    for one_pass in shown:
        if one_pass is passes[-1] and len(shown) < len(passes):
            canvas.note(places[0], y, (words("…", NOTE, "quiet"),), "card")
            y -= STEP
        for x, line in zip(places, tell_turn(journey, one_pass), strict=True):
            if line:
                canvas.note(x, y, (line,), "card")
        y -= STEP
    canvas.panel(left, y - 4, left + width, top, "card", 12, "card", 1.0)
    canvas.panels.insert(start, canvas.panels.pop())
    return y - 4


def tell_turn(journey: Journey, one_pass: Pass) -> tuple[Line, ...]:
    """The number of a turn, what went in, the keys that were looked at, and the scores."""
    alone = Journey(journey.phase, journey.side, (one_pass,), journey.origins)
    records = [(0, record) for _, record in entering(alone)]
    path = f"{journey.layer}.self_attention"
    keys = one_pass.by_id.get(f"{path}.cache_key#0") or one_pass.by_id.get(f"{path}.split_key#0")
    scores = one_pass.by_id.get(f"{path}.scores#0")
    shapes = [read_shape(records[:1])] if records else []
    lines: list[Line] = [words(str(one_pass.number), NOTE, "accent:inference", "semibold")]
    lines.append(digits(shapes[0], NOTE + 1) if shapes else ())
    for step in (keys, scores):
        made = read_shape([(0, step.outputs[0])]) if step is not None and step.outputs else None
        lines.append(digits(made, NOTE + 1) if made is not None else ())
    return tuple(lines)
