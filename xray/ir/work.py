"""How much arithmetic a step is and how much memory it fills, read off its record alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xray.ir.kinds import is_pointwise, only_moves
from xray.ir.products import NATIVE, count_product
from xray.ir.storage import measure_storage
from xray.ir.trace import Pass, Step

BACKWARD = "backward"
"""The step of back-propagation; what it holds are exchanges between ranks alone."""
DERIVED = "derived"
"""The setting of steps that stand for what happens inside a fused operation."""


@dataclass(frozen=True)
class StepWork:
    """The work of a step, or of a block and all inside it.

    `flops` are those of products (see xray.ir.products), `elements` how many numbers element-wise operations went over,
    `bytes` the new storage of what was made, `uncounted` how many of the steps nobody here knows how to count.
    """

    flops: int = 0
    elements: int = 0
    bytes: int = 0
    uncounted: int = 0

    def __add__(self, other: "StepWork") -> "StepWork":
        return StepWork(
            self.flops + other.flops,
            self.elements + other.elements,
            self.bytes + other.bytes,
            self.uncounted + other.uncounted,
        )


def count_flops(step: Step) -> int | None:
    """The FLOPs of one step that holds no other: those of a product, 0 for what is none; None where it is not known."""
    product = count_product(step)
    if product is not None:
        return product
    made = any(record.source == step.id for record in step.outputs)
    known = is_pointwise_cached(step.op) or only_moves_cached(step.op) or not made
    return 0 if known and step.path != "optimizer.step" else None


def count_elements(step: Step) -> int:
    """The numbers that an element-wise operation goes over: those of its largest tensor; 0 for other operations."""
    if not is_pointwise_cached(step.op):
        return 0
    return max((prod(record.shape) for record in (*step.inputs, *step.outputs)), default=0)


def count_multiplications(step: Step) -> int:
    """The multiplications of a product; 0 for every other step."""
    return (count_product(step) or 0) // 2


def add_up_multiplications(one_pass: Pass) -> int:
    """The multiplications of a whole pass; blocks are counted by what is inside them."""
    return sum(count_multiplications(step) for step in one_pass.leaves)


def measure_work(one_pass: Pass) -> Mapping[str, StepWork]:
    """The work of every step of a pass by its id, that of a block with all inside it.

    What a fused operation hides is counted where it is derived, and not again for the operation; what it made is stored
    once, by the operation.
    """
    stored = measure_storage(one_pass)
    blocks = one_pass.blocks
    sums: dict[str, StepWork] = {}
    for step in reversed(one_pass.steps):  # what is inside a block stands behind it
        inside = sums.get(step.id)
        work = measure_leaf(step) if inside is None or step.op in NATIVE or step.op == BACKWARD else inside
        if stored.get(step.id):
            work = work + StepWork(bytes=stored[step.id])
        sums[step.id] = work
        if step.parent in blocks and step.parent is not None:
            sums[step.parent] = work + sums[step.parent] if step.parent in sums else work
    return sums


def measure_leaf(step: Step) -> StepWork:
    """The arithmetic of one step that holds no other; one that failed did none."""
    if step.error is not None:
        return StepWork()
    flops = count_flops(step)
    return StepWork(flops=flops or 0, elements=count_elements(step), uncounted=int(flops is None))


is_pointwise_cached = lru_cache(maxsize=4096)(is_pointwise)
only_moves_cached = lru_cache(maxsize=4096)(only_moves)
