"""What each station says in the reading order: for X-Ray's own model, and for another one no more than was recorded."""

from xray.story.journey import Journey, Tale
from xray.story.rows import has_sublayer
from xray.story.shapes import ShapeText

READING = {
    1: ("Words become ids, ids vectors; places are added.", "The question: ids, vectors, places; read once."),
    2: ("Every word of the question looks at every other.",) * 2,
    3: ("Each word alone, wider and back: the memory.",) * 2,
    4: ("Answers shifted by one: read a word, say the next.", "The answer starts with <sos>, grows by one each turn."),
    5: ("The answer looks at itself, never ahead.",) * 2,
    6: ("The answer asks, the memory holds keys and values.",) * 2,
    7: ("Each word of the answer alone, wider and back.",) * 2,
    8: ("A score for every word, compared with the target.", "Last row, softmax, argmax: the next word."),
    9: ("Gradients flow back, weights move, a new batch.", "The word is appended; decode again until <eos>."),
}
BOTH = {
    8: "Training: loss. Inference: softmax, argmax, a word.",
    9: "Gradients and a new batch, or append and go again.",
}


def reading_lines(tale: Tale) -> list[tuple[int, str]]:
    """What each station says in this poster."""
    if tale.is_retold:
        return retold_lines(tale)
    place = 0 if "training" in tale.phases else 1
    both = BOTH if len(tale.phases) == 2 else {}
    lines = {number: both.get(number, sentences[place]) for number, sentences in READING.items()}
    if "training" in tale.phases and not tale.goes_back:
        lines[9] = READING[9][1] if both else ""
    return [(number, line) for number, line in lines.items() if line]


def retold_lines(tale: Tale) -> list[tuple[int, str]]:
    """The same for another model: the stations that it has, and no more than was recorded."""
    found: list[tuple[int, str]] = []
    for side in tale.sides:
        main = tale.journeys(side)[0]
        reads = "ids become vectors" if main.steps(f"{side}.embedding.words") else "what goes in becomes vectors"
        placed = "; places are added" if main.steps(f"{side}.embedding.positions") else ""
        found.append((1 if side == "encoder" else 4, f"{reads.capitalize()}{placed}."))
        ahead = sees_ahead(main)
        looks = "Every place looks at every other." if ahead else "Every place looks back, never ahead."
        if ahead and main.phase == "inference" and side == "decoder":
            looks = "The new place looks at all that came before."
        found.append((2 if side == "encoder" else 5, looks))
        if has_sublayer((main,), "cross_attention"):
            found.append((6, "The decoder asks, the memory holds keys and values."))
        if has_sublayer((main,), "feed_forward"):
            memory = ": the memory" if side == "encoder" and len(tale.sides) == 2 else ""
            found.append((3 if side == "encoder" else 7, f"Each place alone, wider and back{memory}."))
    last = tale.journeys(tale.sides[-1])
    if any(journey.output("head") for journey in last) or tale.has_loss:
        spoken = any("vocab" in axis for axis in (last[0].output("head") or ShapeText((), ())).axes[-1:])
        scores = "A score for every word, at every place." if spoken else "The head: scores from the vectors."
        compared = READING[8][0] if spoken else "What comes out, compared with the targets."
        found.append((8, compared if tale.has_loss else scores))
    if tale.goes_back:
        found.append((9, READING[9][0]))
    if "inference" in tale.phases and all(number != 9 for number, _ in found):
        found.append((9, "What was chosen is read next: turn by turn."))
    return found


def sees_ahead(journey: Journey) -> bool:
    """Whether an attention's mask lets a query see later keys."""
    step = journey.step(f"{journey.layer}.self_attention.mask")
    kinds = {record.mask.kind for record in step.inputs if record.mask is not None} if step is not None else set()
    return not kinds & {"causal", "padding+causal"}
