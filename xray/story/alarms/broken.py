"""Where NaN or infinity begins; -inf where a mask hides is meant and raises none."""

from collections.abc import Iterator
from math import prod

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.alarms.kinds import Alarm, alarm_at


def list_broken(one_pass: Pass) -> Iterator[Alarm]:
    """The steps where NaN or infinity begins: there is some in what comes out, and none in what went in."""
    counted: dict[str, tuple[int, int]] = {}
    for step in one_pass.steps:
        if step.id in one_pass.blocks:
            continue
        before = [counted.get(record.source, (0, 0)) for record in step.inputs if record.source is not None]
        here = (0, 0)
        for record in step.outputs:
            nans, infinities = count_broken(record)
            here = (here[0] + nans, here[1] + infinities)
        counted[step.id] = here
        if here[0] and not any(nans for nans, _ in before):
            yield alarm_at(one_pass, step, "nan", f"{describe_count(here[0], step)} NaN, the first here")
        elif here[1] and not here[0] and not any(infinities for _, infinities in before):
            text = f"{describe_count(here[1], step)} infinite, the first here"
            yield alarm_at(one_pass, step, "infinite", text)


def count_broken(record: TensorRecord) -> tuple[int, int]:
    """How many values of a tensor are NaN, and how many infinite; -inf in a mask or in masked scores is meant."""
    statistics = record.preview.statistics if record.preview is not None else None
    if statistics is not None:
        hides = record.role == "mask" or is_hidden_by_infinity(record)
        return statistics.nans, 0 if hides else statistics.infinities
    values = record.preview.values if record.preview is not None else ()
    return sum(value == "nan" for value in values), sum(value == "inf" for value in values)


def is_hidden_by_infinity(record: TensorRecord) -> bool:
    """Whether all infinities that are seen of a tensor are -inf, as a mask leaves them."""
    values = record.preview.values if record.preview is not None else ()
    return "inf" not in values and ("-inf" in values or not values)


def describe_count(count: int, step: Step) -> str:
    whole = sum(prod(record.shape) for record in step.outputs)
    return f"{count:,} of the {whole:,} values that {step.path} makes {'is' if count == 1 else 'are'}"
