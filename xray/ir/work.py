"""How much arithmetic a step is: the multiplications of its matrix products, read off its shapes."""

from math import prod

from xray.ir.trace import Pass, Step

LEFT_OPERANDS = {"linear": 0, "matmul": 0, "mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""For each operation that multiplies matrices, which of its inputs is the left one."""


def count_multiplications(step: Step) -> int:
    """The multiplications of a linear layer or a matrix product; 0 for every other step.

    An output of shape (..., rows, columns) takes `inner` multiplications for each of its numbers.
    """
    place = LEFT_OPERANDS.get(step.op)
    if place is None or len(step.inputs) <= place or not step.outputs:
        return 0
    left = step.inputs[place]
    return prod(step.outputs[0].shape) * left.shape[-1] if left.shape else 0


def add_up_multiplications(one_pass: Pass) -> int:
    """The multiplications of a whole pass; blocks are counted by what is inside them."""
    return sum(count_multiplications(step) for step in one_pass.leaves)
