"""What the turns said, one after the other, and what the first one could have said."""

from collections.abc import Sequence

from xray.ir.trace import Pass, Step
from xray.story.canvas import Canvas, words
from xray.story.layout import Box
from xray.story.sheet.columns import Column
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import fit_text, wrap_words
from xray.text import show_controls

MOST_CHANCES, CHANCE = 5, 15.0


def draw_said(canvas: Canvas, phase: Column, word: Box, right: float, bottom: float) -> None:
    """The words that the turns said, right of the box that chooses them."""
    spoken = [next(iter(one_pass.tokens.get("new", ())), ()) for one_pass in phase.look.passes]
    said = [show_controls(row[0]) for row in spoken if row]
    left = word.right + 12
    lines = [words("NEW WORDS, TURN BY TURN", NOTE, "accent:inference", "bold")]
    lines += [words(line, LABEL) for line in wrap_words(said, LABEL, right - left, canvas.measure, 4)]
    box = canvas.note(left, word.y - 12, tuple(lines))
    draw_chances(canvas, list_likeliest(phase), left, right, box.bottom - 8, bottom)


def draw_chances(
    canvas: Canvas, listed: Sequence[tuple[str, float]], left: float, right: float, top: float, bottom: float
) -> None:
    """The likeliest words of the first turn, as many as there is room for."""
    room = min(len(listed), MOST_CHANCES, int((top - bottom) / CHANCE) - 1)
    if room < 1:
        return
    title = words("TURN 1 COULD HAVE SAID", NOTE, "accent:inference", "bold")
    canvas.note(left, top, (title,), kind="note chance_title")
    full = right - left - 66 - 40
    for place, (word, chance) in enumerate(listed[:room]):
        y = top - (place + 1) * CHANCE
        shown = words(fit_text(word, NOTE, 62, canvas.measure), NOTE)
        canvas.note(left, y, (shown,), kind="note chance_word", marks=(("word", word),))
        canvas.add(draw_bar(f"chance_{place}", left + 66, y - 6.5, max(2.0, full * chance), full))
        canvas.note(right, y, (words(f"{chance:.1%}", NOTE, "quiet"),), align="right", kind="note chance_share")


def draw_bar(name: str, left: float, y: float, width: float, full: float) -> Box:
    """A bar, and which share it is of one that would stand for certainty."""
    share = (("share", f"{width / full:.4f}"),)
    return Box(name, left + width / 2, y, width, 7, (), "line:inference", kind="chance_bar", marks=share)


def list_likeliest(phase: Column) -> list[tuple[str, float]]:
    """The first turn's best words with their chances, where they were kept; the likeliest first."""
    first: Pass = phase.look.passes[0]
    named = next(iter(first.tokens.get("candidates", ())), ())
    nodes = phase.exit.nodes if phase.exit is not None else ()
    step: Step | None = next((node.steps[0] for node in nodes if node.steps[0].op == "softmax"), None)
    preview = step.outputs[0].preview if step is not None and step.outputs else None
    if preview is None:
        return []
    chances = sorted((float(value) for value in preview.values if not isinstance(value, str)), reverse=True)
    return [(show_controls(word), chance) for word, chance in zip(named, chances, strict=False)]
