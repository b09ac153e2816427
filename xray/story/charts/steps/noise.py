"""Noise that is drawn by chance and added to rows, be both scaled first by a share and what is left of it."""

from dataclasses import dataclass
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CHANCE, DIVISIONS, SCALINGS, SUMS
from xray.story.entrance.tables import MOVING
from xray.story.recognition.values.value_shapes import number

MOST_BEHIND = 12


@dataclass(frozen=True)
class NoiseSum:
    """A sum of noise and rows, where both are scaled: the steps that do so and it, and what makes the numbers `t`.

    Rows are multiplied by t and noise by 1 less it, or the other way round where `is_of_noise`.
    """

    steps: tuple[int, ...]
    share: int
    is_of_noise: bool


def label_noise(flow: Flow, node: int) -> str:
    """What a sum is called that adds noise, and what becomes of the other rows first; "" for any other step."""
    if flow.op(node) not in SUMS or not any(is_drawn_by_chance(flow, maker) for maker in flow.makers[node]):
        return ""
    blend = find_noise_sum(flow, node)
    if blend is not None:
        return "NOISE × t + ROWS × (1 − t)" if blend.is_of_noise else "NOISE × (1 − t) + ROWS × t"
    return "ROWS × NUMBERS + NOISE" if list_noise_sum(flow, node) else "+ NOISE"


def list_noise_sum(flow: Flow, node: int) -> tuple[int, ...]:
    """A sum of noise and rows with the steps that scale both first, or the rows alone; empty for any other step."""
    blend = find_noise_sum(flow, node)
    if blend is not None:
        return blend.steps
    rows = [one for noise, one in list_noised(flow, node) if one is not None and find_scaled(flow, one) is not None]
    return (*rows, node)[-2:] if rows else ()


def find_noise_sum(flow: Flow, node: int) -> NoiseSum | None:
    """A sum of noise and rows of which one is multiplied by t and the other by 1 − t; None for any other step."""
    for sides in list_noised(flow, node):
        noise, rows = (None if one is None else find_scaled(flow, one) for one in sides)
        if noise is None or rows is None:
            continue
        for share, left in ((noise, rows), (rows, noise)):
            is_rest = flow.op(left) == "rsub" and number(flow.steps[left]) == 1 and len(flow.makers[left]) == 1
            if is_rest and find_made(flow, flow.makers[left][0]) == share:
                steps = sorted({left, *(one for one in sides if one is not None)})
                return NoiseSum((*steps, node), share, share == noise)
    return None


def list_noised(flow: Flow, node: int) -> list[tuple[int | None, int | None]]:
    """What makes the noise and what makes the rows that a step adds up; empty for any other step."""
    makers = [flow.carried_from(maker) for maker in flow.makers[node]] if flow.op(node) in SUMS else []
    by_chance = [is_drawn_by_chance(flow, maker) for maker in makers]
    if len(makers) != 2 or by_chance.count(True) != 1:
        return []
    return [(makers[by_chance.index(True)], makers[by_chance.index(False)])]


def find_scaled(flow: Flow, node: int) -> int | None:
    """The step that makes the few numbers, one for all of a row or of a sequence, by which another multiplies rows."""
    if flow.op(node) not in SCALINGS or flow.op(node) in DIVISIONS:
        return None
    whole = prod(flow.output(node).shape)
    few = [maker for record, maker in flow.given(node) if record.shape[-1:] == (1,) and prod(record.shape) < whole]
    return find_made(flow, few[0]) if len(few) == 1 and len(flow.steps[node].inputs) == 2 else None


def find_made(flow: Flow, maker: int | None) -> int | None:
    """The step that makes what others only move or rename, or the first of those where it comes from outside."""
    while maker is not None and flow.op(maker) in CARRYING:
        before = next(iter(flow.makers[maker]), None)
        if before is None:
            break
        maker = before
    return maker


def is_drawn_by_chance(flow: Flow, maker: int | None) -> bool:
    """Whether numbers are drawn by chance, moved and scaled at most: by few numbers, as by the time of a flow (π0).

    What numbers drawn by chance pick from a table is not (the shares of noise and rows at a time, MAR).
    """
    seen: set[int] = set()
    todo, chance = [maker], False
    while todo and len(seen) < MOST_BEHIND:
        here = todo.pop()
        if here is None or here in seen:
            continue
        seen.add(here)
        if flow.op(here) in CHANCE:
            chance = True
            continue
        if flow.op(here) not in MOVING | SCALINGS | {"index"}:
            return False
        whole = prod(flow.output(here).shape) if flow.op(here) in SCALINGS else 0
        rows = list(flow.given(here))[: 1 if flow.op(here) == "index" else None]
        todo += [before for record, before in rows if prod(record.shape) >= whole]
    return chance
