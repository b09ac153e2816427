"""The title of a sheet: the model's name, what was recorded, and the sizes of its towers."""

from collections.abc import Sequence

from xray.story.anatomy.attentions import Attention, DeformableAttention, Looking
from xray.story.anatomy.branches import CurvedAttention, Experts, FeedForward, LinearAttention, Unknown
from xray.story.anatomy.tree import Anatomy, Tower
from xray.story.anatomy.wording import name_active
from xray.story.canvas import Canvas, words
from xray.story.cards.told import Scored, Told
from xray.story.facts.totals import count_params
from xray.story.layout import Line, Measure, Run, line_width
from xray.story.sentences.of_runs import COPIED, describe_recording
from xray.story.shapes import hue
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import fit_text, wrap

FIRST, SECOND, OTHER, TITLE = "X-RAY", "TRANSFORMER", "NETWORK", 78
CREDIT = "after the X-Ray Transformer infographic by Javier Ideami, losslandscape.com"
NAME, SMALLEST_NAME, SMALLEST_TITLE = 20, 12, 52


def draw_title(told: Told, canvas: Canvas, top: float) -> float:
    """Title, the model's name, what was recorded, and its sizes."""
    y = draw_name(told, canvas, top)
    if told.trace.title.upper() != f"{FIRST} {SECOND}":
        sizes = range(NAME, SMALLEST_NAME, -1)
        fitting = (one for one in sizes if canvas.measure(told.trace.title, one, "bold") <= told.width)
        size = next(fitting, SMALLEST_NAME)
        name = fit_text(told.trace.title, size, told.width, canvas.measure, "bold")
        y = canvas.note(told.left, y, (words(name, size, "accent:title", "bold"),)).bottom - 2
    y = canvas.note(told.left, y, list_credits(told, canvas.measure, told.width)).bottom - 8
    for line in list_size_lines(told, canvas):
        y = canvas.note(told.left, y, (line,)).bottom - 2
    return y


def list_credits(told: Told, measure: Measure, width: float) -> tuple[Line, ...]:
    """What was recorded, and after whose picture it is drawn."""
    said = filter(None, (describe_recording(told.trace, told.roles), COPIED.tell(told.trace)))
    lines = [words(line, LABEL) for text in said for line in wrap(text, LABEL, width, measure)]
    return (*lines, *(words(line, NOTE, "quiet") for line in wrap(CREDIT, NOTE, width, measure)))


def draw_name(told: Told, canvas: Canvas, top: float) -> float:
    """The title itself, on one line where it is wide; gives the height below it."""
    second = name_subject(told.anatomy)
    whole = canvas.text_width(f"{FIRST} {second}", 100, "black") / 100
    if told.width / whole > SMALLEST_TITLE:
        size = int(min(TITLE, told.width / whole))
        canvas.note(told.left - 2, top, (words(FIRST, size, "text", "black"),))
        start = told.left - 2 + canvas.text_width(FIRST + " ", size, "black")
        canvas.note(start, top, (words(second, size, "accent:title", "black"),))
        return top - size * 1.12 - 4
    size = int(min(TITLE, told.width / (canvas.text_width(second, 100, "black") / 100)))
    canvas.note(told.left - 2, top, (words(FIRST, size, "text", "black"),))
    canvas.note(told.left - 2, top - size, (words(second, size, "accent:title", "black"),))
    return top - size * 2.12 - 4


def name_subject(anatomy: Anatomy) -> str:
    """What the sheet is an x-ray of: a transformer, if one of its layers looks at other places by attention."""
    looks = any(isinstance(branch, Looking) for tower in anatomy.towers for branch in tower.branches)
    return SECOND if looks else OTHER


def list_size_lines(told: Told, canvas: Canvas) -> list[Line]:
    """The sizes of every tower, and the parameters of it all."""
    rows: list[list[tuple[str, str, str]]] = []
    for tower, _, _ in told.frames:
        pairs = [("", "other", tower.name)] if len(told.frames) > 1 else []
        pairs += list_sizes(tower, dict(told.scored).get(tower.name, Scored()))
        rows.append(pairs)
    ends = rows.pop() if told.roles != ("forward",) else []
    batch = told.trace.sizes.get("batch")
    if batch and told.roles != ("forward",):
        ends.append(("batch", "batch", f"{batch:,}"))
    params = count_params(told.trace)
    if params:
        ends.append(("parameters", "other", f"{params:,}"))
    if told.anatomy.active_params and told.anatomy.active_params != params:
        ends.append((name_active(told.anatomy), "other", f"{told.anatomy.active_params:,}"))
    rows.append(ends)
    lines: list[Line] = []
    for row in rows:
        current: Line = ()
        for name, axis, value in row:
            label = f"{name} " if name else ""
            number = Run(f"{value}  ", LABEL + 1, hue(axis), "bold")
            piece = (Run(label, LABEL), number) if label else (number,)
            if current and line_width((*current, *piece), canvas.measure) > told.width:
                lines.append(current)
                current = ()
            current = (*current, *piece)
        if current:
            lines.append(current)
    return lines


def list_sizes(tower: Tower, scored: Scored) -> list[tuple[str, str, str]]:
    """A tower's sizes with the axis that each is of; of more than two that differ from layer to layer the range.

    What a network of convolutions adds to its stream are its residual layers: it may have others; it has channels.
    Heads are those of all that looks at other places, between layers too (LeViT). Deformable attention has no keys:
    where its values have a width that no key has, those of all are told. Its words are those that it gives scores, as
    many as are `scored`, if it does: its ids may be of more, or of other ones. What bends nothing is no d_ff beside
    others (Gemma 3n).
    """
    found: list[tuple[str, str, str]] = []

    def add(name: str, axis: str, values: Sequence[int | None]) -> None:
        known = sorted({value for value in values if value})
        if known and None not in values:
            text = (
                f"{known[0]:,}{' or ' if len(known) == 2 else '–'}{known[-1]:,}" if len(known) > 1 else f"{known[0]:,}"
            )
            found.append((name, axis, text))

    looking = [branch for branch in tower.branches if isinstance(branch, Looking)]
    between = [bridge.heads for bridge in tower.bridges if bridge.heads]
    unknown = [one for one in tower.branches if isinstance(one, Unknown) and one.multiplies]
    summed = [one if isinstance(one, LinearAttention) else LinearAttention(()) for one in unknown]
    add("heads", "heads", [*(branch.heads for branch in (*looking, *summed)), *between])
    add("residual layers" if tower.is_convolved else "layers", "other", [tower.layers])
    add("channels" if tower.is_convolved else "d_model", "d_model", [group.d_model for group in tower.groups])
    keys = [branch.d_k for branch in looking if isinstance(branch, Attention | CurvedAttention)]
    add("d_k", "d_k", [*keys, *(one.d_k for one in summed)])
    if any(isinstance(branch, DeformableAttention) and branch.d_v not in keys for branch in looking):
        add("d_v", "d_k", [branch.d_v for branch in looking if isinstance(branch, Attention | DeformableAttention)])
    forwards = [one for one in tower.branches if isinstance(one, FeedForward | Experts)]
    bent = [one for one in forwards if isinstance(one, Experts) or one.activation is not None]
    own = [one for one in bent or forwards if isinstance(one, Experts) or not one.gates_beside]
    sets = [other for one in own for other in ((one,) if isinstance(one, FeedForward) else one.sets)]
    every = [one.shared_d_ff for one in sets if isinstance(one, Experts) and one.shared]
    add("d_ff", "d_ff", [*(one.d_ff for one in sets), *every])
    if scored.codes > 1:
        return [*found, ("vocab", "tgt_vocab", f"{scored.codes:,} × {scored.words:,}")]
    are_others = bool(scored.words) and scored.words != tower.vocab
    add("vocab", "tgt_vocab", [scored.words if are_others else tower.vocab])
    add("ids", "other", [tower.vocab] if are_others and tower.vocab else [])
    return found
