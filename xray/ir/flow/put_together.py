"""Parts put end to end as they stood before: all of what they were cut out of, or put together once more."""

from collections.abc import Iterator, Sequence

from xray.ir.flow.index_spans import read_span, takes_one_axis
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.ir.records import TensorRecord
from xray.ir.trace import Step

Makers = Sequence[tuple[int | None, ...]]


def list_put_together(steps: Sequence[Step], makers: Makers) -> Iterator[tuple[int, int]]:
    """The places of steps that make again what an earlier one made, each with the place of that one.

    They put parts end to end that were cut out of one tensor in this order, all of it, or that an earlier step put so
    (Emformer). Parts without numbers are nothing; one alone is that (Pyramid Flow).
    """
    joined: dict[tuple[object, ...], int] = {}
    for place, step in enumerate(steps):
        if step.op not in SIDE_BY_SIDE or len(step.outputs) != 1:
            continue
        if len(step.inputs) == 1 and (maker := makers[place][0]) is not None and step.inputs[0].output is None:
            yield from [(place, maker)] * (step.inputs[0].shape == step.outputs[0].shape)
            continue
        given = [one for one in zip(step.inputs, makers[place], strict=True) if 0 not in one[0].shape]
        if len(given) < 2 or any(maker is None for _, maker in given):
            continue
        parts = tuple((maker, record.output) for record, maker in given)
        earlier = joined.setdefault((step.settings.get("dim", 0), parts), place)
        whole = find_whole(steps, makers, step.outputs[0], [maker for maker, _ in parts], step.settings.get("dim", 0))
        if whole is not None or earlier != place:
            yield place, earlier if whole is None else whole


def find_whole(
    steps: Sequence[Step], makers: Makers, made: TensorRecord, cuts: Sequence[int | None], axis: object
) -> int | None:
    """The maker of what was cut along an axis into all that some steps made, in this order; None if nothing was."""
    end, wholes = 0, set[int | None]()
    for cut in cuts:
        step = None if cut is None else steps[cut]
        if cut is None or step is None or step.op != "index" or len(step.inputs) != 1 or not isinstance(axis, int):
            return None
        whole, index = step.inputs[0], str(step.settings.get("index", ""))
        span = read_span(index, whole.shape, axis) if all(map(takes_one_axis, index.split(","))) else None
        if whole.shape != made.shape or whole.output is not None or span is None or span[0] != end:
            return None
        end = span[1]
        wholes.add(makers[cut][0])
    return wholes.pop() if len(wholes) == 1 and isinstance(axis, int) and end == made.shape[axis] else None
