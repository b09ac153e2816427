"""Losses that failed: where the classes stand, how many targets there are, and what they have to be."""

import re
from dataclasses import replace
from math import prod

from xray.ir.trace import Step
from xray.story.failure.operands import Misfit, Operand, mark, mark_differing, write

OUT_OF_BOUNDS = re.compile(r"Target (-?\d+) is out of bounds")


def check_classes(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """Cross-entropy: scores with the classes on axis 1, and a class number for each place."""
    if len(operands) < 2 or not operands[0].sizes:
        return None
    scores, targets, *rest = operands
    place = min(1, len(scores.sizes) - 1)
    classes, wanted = scores.sizes[place], scores.sizes[:place] + scores.sizes[place + 1 :]
    beyond = OUT_OF_BOUNDS.search(step.error or "")
    if beyond is not None:
        rule = f"every target has to be a class, from 0 to {classes - 1}, or the ignore_index: {beyond[1]} here"
        return Misfit((mark(scores, place), targets, *rest), rule)
    kind = step.inputs[1].dtype
    if targets.sizes == wanted and kind not in ("int64", "uint8"):
        rule = f"targets have to be class numbers, of type int64: {kind} here. Make them so with .long()"
        return Misfit((scores, replace(targets, type=kind), *rest), rule)
    if targets.sizes in (wanted, scores.sizes):
        return None
    if len(scores.sizes) > 2 and targets.sizes == scores.sizes[:-1]:
        turn = ".transpose(1, 2)" if len(scores.sizes) == 3 else ".movedim(-1, 1)"
        rule = f"the classes have to stand on axis 1, and they stand last: give scores{turn}"
        return Misfit((mark(scores, 1, -1), mark_differing(targets, wanted), *rest), rule)
    if len(scores.sizes) == 2 and prod(targets.sizes) == scores.sizes[0]:
        rule = f"one target for each row of scores: give targets.flatten(), {scores.sizes[0]} of them"
        return Misfit((scores, mark_differing(targets, wanted), *rest), rule)
    if len(targets.sizes) == 1 and targets.sizes[0] == prod(scores.sizes[:-1]):
        rule = f"one row of scores for each target: give scores.flatten(0, -2), {targets.sizes[0]} rows"
        return Misfit((mark(scores, *range(len(scores.sizes) - 1)), targets, *rest), rule)
    rule = f"scores of {write(scores.sizes)} with classes on axis {place} need targets of {write(wanted)}"
    return Misfit((scores, mark_differing(targets, wanted), *rest), rule)


def check_same(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """A loss that compares number with number: both of one shape."""
    if len(operands) < 2 or operands[0].sizes == operands[1].sizes:
        return None
    first, second, *rest = operands
    rule = f"both have to be of one shape: {write(first.sizes)} and {write(second.sizes)}"
    if (*second.sizes, 1) == first.sizes:
        rule += f". Give {first.name}.squeeze(-1)"
    return Misfit((mark_differing(first, second.sizes), mark_differing(second, first.sizes), *rest), rule)
