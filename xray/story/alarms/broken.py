"""Where NaN or infinity begins, and masks that leave a row blind, where their cells alone are known.

A hidden cell, or -inf where a mask hides, is meant and raises none.
"""

from collections.abc import Collection, Iterator
from math import prod

from xray.ir.records import VISIBLE, MaskFacts, TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.alarms.kinds import Alarm, alarm_at


def list_blind(one_pass: Pass, readers: Collection[str]) -> Iterator[Alarm]:
    """The masks in which a row sees nothing, as far as steps between scores and softmax read them."""
    seen: set[object] = set()
    for step in one_pass.steps:
        if step.id not in readers or not may_hide(step):
            continue
        for record in step.inputs:
            if record.role != "mask" or record.mask is None:
                continue
            maker = record.source or record.name
            rows = count_blind_rows(record.mask)
            if rows and (maker, record.shape) not in seen:
                seen.add((maker, record.shape))
                yield alarm_at(one_pass, step, "blind", tell_blind(record, rows))


def may_hide(step: Step) -> bool:
    """Whether what a step fills in keeps scores from being read: a number that is not negative never does."""
    value = step.settings.get("value", step.settings.get("arg2"))
    fills = step.op.startswith("masked_fill")
    return not (fills and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)


def count_blind_rows(mask: MaskFacts) -> int:
    """How many rows of a mask see nothing; 0 where that is not known."""
    if mask.cells is not None:
        return sum(VISIBLE not in row for matrix in mask.cells for row in matrix)
    return mask.blind_rows or 0


def tell_blind(record: TensorRecord, rows: int) -> str:
    """What a blind row means: where nothing may be read, softmax has nothing to share out."""
    whole = prod(record.shape[:-1])
    name = record.source.partition("#")[0] if record.source else record.name
    see = "sees" if rows == 1 else "see"
    return (
        f"{rows:,} of the {whole:,} rows of the mask {name} {see} nothing: every key is hidden, so softmax gives NaN "
        "where -inf hides, and an even mean of what is hidden where a number does."
    )


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
            yield alarm_at(one_pass, step, "nan", f"{tell_count(here[0], step)} NaN, the first here")
        elif here[1] and not here[0] and not any(infinities for _, infinities in before):
            text = f"{tell_count(here[1], step)} infinite, the first here"
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


def tell_count(count: int, step: Step) -> str:
    whole = sum(prod(record.shape) for record in step.outputs)
    return f"{count:,} of the {whole:,} values that {step.path} makes {'is' if count == 1 else 'are'}"
