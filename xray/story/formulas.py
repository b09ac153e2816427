"""The formulas behind the shapes, with the numbers of this run in them."""

from xray.story.canvas import Canvas, words
from xray.story.journey import Tale
from xray.story.labels import scores_label
from xray.story.layout import Line, Run, line_width
from xray.story.plan import LABEL, NOTE
from xray.story.shapes import digits


def draw_formulas(canvas: Canvas, tale: Tale, left: float, top: float, width: float) -> float:
    """A card: attention, the width of a head, the way from d_model to heads, and the last softmax.

    Two stand beside two.
    """
    cells = formula_lines(tale)
    share = (width - 28) / 2
    for place, (title, line) in enumerate(cells):
        x, y = left + 14 + (place % 2) * (share + 8), top - 9 - (place // 2) * 34
        fitted = line if line_width(line, canvas.measure) <= share - 8 else shrink(line)
        canvas.note(x, y, (words(title, NOTE, "accent:title", "bold"), fitted), "card")
    bottom = top - 9 - len(cells) // 2 * 34
    canvas.panel(left, bottom, left + width, top, "card", 12, "card", 1.0)
    return bottom


def shrink(line: Line) -> Line:
    return tuple(Run(run.text, max(NOTE, run.size - 2), run.ink, run.weight, run.shift) for run in line)


def formula_lines(tale: Tale) -> list[tuple[str, Line]]:
    journey, sizes = tale.encoder[0], tale.trace.sizes
    path = f"{journey.layer}.self_attention"
    attention: list[Run] = [text("softmax( Q·K"), Run("T", LABEL, "text", "regular", "sup")]
    if scores_label(journey, path).endswith("√d_k"):
        attention += [text(" / √d"), Run("k", LABEL, "text", "regular", "sub")]
    attention.append(text(" + mask ) · V"))
    attention.append(Run("    over the keys", NOTE, "quiet"))
    d_model, heads, d_k = (str(sizes.get(name, "?")) for name in ("d_model", "heads", "d_k"))
    head_width: tuple[Run, ...] = (
        text("d_model / heads  =  "),
        number(d_model, "d_model"),
        text(" / "),
        number(heads, "heads"),
        text("  =  "),
        number(d_k, "d_k"),
    )
    chain: list[Run] = []
    split = f"{path}.split_query"
    moves = [(f"{split}.view", "view"), (f"{split}.transpose", "transpose")]
    for step, name in [(f"{path}.query", ""), *moves]:
        shape = journey.output(step)
        if shape is None:
            continue
        if chain:
            chain += [Run(f"  {name} → ", NOTE, "quiet")]
        chain += digits(shape, LABEL)
    vocabulary = (
        text("softmax( z )  =  e"),
        Run("z", LABEL, "text", "regular", "sup"),
        text(" / sum of all e"),
        Run("z", LABEL, "text", "regular", "sup"),
        Run("    z: ", NOTE, "quiet"),
        number(f"{sizes.get('tgt_vocab', '?')}", "tgt_vocab"),
        Run(" logits", NOTE, "quiet"),
    )
    return [
        ("ATTENTION: EACH ROW SUMS TO 1", tuple(attention)),
        ("WIDTH OF ONE HEAD, d_k", head_width),
        ("SPLIT INTO HEADS: NO NUMBER CHANGES", tuple(chain)),
        ("NEXT WORD: ONE CHANCE FOR EVERY WORD", vocabulary),
    ]


def text(value: str) -> Run:
    return Run(value, LABEL)


def number(value: str, axis: str) -> Run:
    return Run(value, LABEL + 1, f"axis:{axis}", "bold")
