"""A step that failed, in the tables: what was raised, and its operands side by side with the axis that does not fit."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from xray.ir.trace import Step
from xray.renderers.table.words import Words, flow
from xray.story.failure.operands import Operand
from xray.story.failure.rules import find_misfit

MOST_OPERANDS = 6


def list_failure(step: Step, words: Words, width: int, *, is_around: bool) -> Sequence[Text]:
    """The lines of a step that failed; one around another that did tells only what was raised."""
    raised = [words.accent(word, "warning") for word in f"failed: {step.error}".split()]
    if is_around or not step.inputs:
        return flow(raised, width)
    misfit = find_misfit(step)
    shown = [operand_words(operand, words) for operand in misfit.operands[:MOST_OPERANDS]]
    if len(misfit.operands) > MOST_OPERANDS:
        shown.append(words.quiet(f"and {len(misfit.operands) - MOST_OPERANDS} more"))
    rule = [words.strong(word) for word in misfit.rule.split()]
    return (*flow(raised, width), *flow(shown, width), *flow(rule, width))


def operand_words(operand: Operand, words: Words) -> Text:
    """An operand as `left 8×14×[32]`, the axis that does not fit in brackets, to be kept on one line."""
    warning = words.style(words.theme.accents["warning"]) + Style(bold=True)
    text = Text.assemble(words.quiet(operand.name), " ", no_wrap=True)
    for place, size in enumerate(operand.sizes):
        if place:
            text.append_text(words.quiet(words.signs.times))
        text.append_text(Text(f"[{size}]", warning) if place in operand.wrong else words.plain(str(size)))
    if not operand.sizes and not operand.type:
        text.append("one number")
    if operand.type:
        text.append_text(Text(f"{' ' if operand.sizes else ''}[{operand.type}]", warning))
    text.append("  ")
    return text
