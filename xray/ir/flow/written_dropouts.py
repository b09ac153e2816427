"""Dropouts that are written out: numbers times a mask of 0 and 1 by chance, over the share that is kept."""

from collections.abc import Iterator, Sequence

from xray.ir.flow.operation_kinds import CASTING, DIVISIONS, TIMES
from xray.ir.flow.put_together import Makers
from xray.ir.trace import Step

DRAWN = frozenset({"bernoulli", "bernoulli_"})
EVEN = frozenset({"rand", "rand_like"})
"""What draws each number between 0 and 1 alike."""
BELOW, ABOVE = frozenset({"lt", "le"}), frozenset({"gt", "ge"})
CLOSE = 1e-6


def list_written_dropouts(steps: Sequence[Step], makers: Makers) -> Iterator[tuple[int, float]]:
    """The places of products that are such a dropout, each with the share that it drops.

    So torch takes the dropout of attention's weights apart where no kernel has it. The mask has a number of its own for
    each that it multiplies, and is the second of the two.
    """
    for place, step in enumerate(steps):
        if step.op in TIMES and len(step.inputs) == 2 and step.outputs:
            shapes = {record.shape for record in (*step.inputs, step.outputs[0])}
            kept = read_kept(steps, makers, makers[place][1]) if len(shapes) == 1 else None
            if kept is not None:
                yield place, 1 - kept


def read_kept(steps: Sequence[Step], makers: Makers, mask: int | None) -> float | None:
    """The share that a mask keeps, where what it keeps grows by as much as the rest is missing; None if it is none."""
    factor = 1.0
    while mask is not None:
        step, number = steps[mask], read_number(steps[mask])
        if number and step.op in DIVISIONS:
            factor /= number
        elif number and step.op in TIMES:
            factor *= number
        elif step.op not in CASTING:
            share = read_chance(steps, makers, mask)
            return share if share is not None and abs(share * factor - 1) < CLOSE else None
        mask = makers[mask][0] if makers[mask] else None
    return None


def read_chance(steps: Sequence[Step], makers: Makers, place: int) -> float | None:
    """How likely each number that a step gives is 1, where it is 0 or 1 by chance."""
    step, number = steps[place], read_number(steps[place])
    if number is None or not 0 < number < 1 or not makers[place]:
        return None
    if step.op in DRAWN:
        return number
    maker = makers[place][0]
    if maker is None or steps[maker].op not in EVEN:
        return None
    return number if step.op in BELOW else 1 - number if step.op in ABOVE else None


def read_number(step: Step) -> float | None:
    """The one number that a step works with, beside the one tensor that it reads."""
    number = step.settings.get("other", step.settings.get("p"))
    return float(number) if len(step.inputs) == 1 and isinstance(number, int | float) else None
