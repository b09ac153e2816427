"""Linear layers that are written as a sum over an axis of rows and of a matrix: `torch.tensordot(x, weight, dims)`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xray.ir.trace import Step


def list_written_linears(steps: Sequence[Step]) -> Iterator[tuple[int, Step]]:
    """The places of those that sum over the last axis of rows, be the shapes the proof, as the product they are."""
    for place, step in enumerate(steps):
        if step.op == "tensordot" and len(step.inputs) == 2 and len(step.outputs) == 1:
            matrix = step.inputs[1]
            if matrix.role == "parameter" and len(matrix.shape) == 2 and sums_last(step):
                yield place, replace(step, op="matmul")


def sums_last(step: Step) -> bool:
    """Whether the shapes of such a sum allow for no other axis of the rows than the last one."""
    (rows, matrix), made = (one.shape for one in step.inputs), step.outputs[0].shape
    axes = [
        axis
        for axis, size in enumerate(rows)
        for summed, kept in (matrix, matrix[::-1])
        if summed == size and made == (*rows[:axis], *rows[axis + 1 :], kept)
    ]
    return {*axes} == {len(rows) - 1}
