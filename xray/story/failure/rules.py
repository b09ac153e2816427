"""Why an operation failed: its operands side by side, the axes that do not fit, and the rule that they break."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from xray.ir.trace import Step
from xray.story.failure.dtypes import check_devices, check_types
from xray.story.failure.losses import check_classes, check_same
from xray.story.failure.masks import check_attention
from xray.story.failure.operands import Misfit, Operand, describe_width, mark, read_operand, write

PRODUCTS = {"matmul": 0, "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "addmv": 1, "baddbmm": 1}
"""For each operation that multiplies matrices, which of its inputs is the left one."""

CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
RECURRENT = ("lstm", "gru", "rnn")
CLASS_LOSSES = ("cross_entropy", "cross_entropy_loss", "nll_loss", "nllloss", "nll_loss2d")
SAME_LOSSES = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "bceloss", "bcewith_logits_loss"),
    *("mse_loss", "mseloss", "l1_loss", "l1loss", "smooth_l1_loss", "huber_loss"),
)
ATTENTIONS = (
    *("scaled_dot_product_attention", "multi_head_attention_forward"),
    *("multihead_attention", "_native_multi_head_attention", "native_multi_head_attention"),
)
MANY = 4
"""Of so many operands on, those that do not fit come first."""
ASKED_SHAPE = re.compile(r"shape '\[([-\d, ]*)\]' is invalid")
EXPECTED_SHAPE = re.compile(r"expected input with shape \[\*, ([\d, ]+)\]")
BROADCAST = re.compile(r"must match the (?:existing )?size|broadcast|at non-singleton dimension")


def find_misfit(step: Step) -> Misfit:
    """What does not fit at a step that failed, found from its shapes and settings, or else from what was raised.

    Where nothing is found the operands are still told, none of their axes marked. Of many, those that do not fit come
    first. Of tensors that ranks share it is this rank's parts that met.
    """
    step = replace(step, inputs=tuple(replace(one, shape=one.local or one.shape) for one in step.inputs))
    operands = tuple(read_operand(record) for record in step.inputs)
    for look in LOOKS:
        found = look(step, operands)
        if found is not None:
            return found if len(found.operands) < MANY else replace(found, operands=put_first(found.operands))
    return Misfit(operands)


def put_first(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """The operands, those that do not fit before the others, so that they are told where not all are."""
    return tuple(sorted(operands, key=lambda operand: not operand.is_wrong))


def look_by_operation(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """The check that knows this operation, if there is one."""
    op = step.op.strip("_")
    if op in PRODUCTS:
        return check_product(operands, PRODUCTS[op])
    if op in CONVOLUTIONS:
        return check_channels(step, operands, CONVOLUTIONS[op])
    checks: dict[str, Callable[[Step, tuple[Operand, ...]], Misfit | None]] = {
        "linear": check_linear,
        "cat": check_joined,
        "concat": check_joined,
        "stack": check_stacked,
        "embedding": check_embedding,
        "add": check_broadcast,
        "sub": check_broadcast,
        "rsub": check_broadcast,
        "mul": check_broadcast,
        "div": check_broadcast,
        "masked_fill": check_broadcast,
        "mask_scores": check_broadcast,
        "where": check_broadcast,
        "batch_norm1d": check_features,
        "batch_norm2d": check_features,
        "batch_norm3d": check_features,
        **dict.fromkeys(RECURRENT, check_recurrent),
        **dict.fromkeys(CLASS_LOSSES, check_classes),
        **dict.fromkeys(SAME_LOSSES, check_same),
        **dict.fromkeys(ATTENTIONS, check_attention),
    }
    return checks[op](step, operands) if op in checks else None


def check_product(operands: tuple[Operand, ...], first: int) -> Misfit | None:
    """The inner axes of two matrices, then the axes before them."""
    if len(operands) < first + 2:
        return None
    left, right = operands[first : first + 2]
    if not left.sizes or not right.sizes:
        return Misfit(operands, "a single number has no axis to multiply along")
    inner_left, inner_right = len(left.sizes) - 1, max(0, len(right.sizes) - 2)
    if left.sizes[inner_left] != right.sizes[inner_right]:
        marked = (mark(left, inner_left), mark(right, inner_right))
        rule = f"the inner axes have to be equal: {left.sizes[inner_left]} and {right.sizes[inner_right]}"
        return Misfit((*operands[:first], *marked, *operands[first + 2 :]), rule)
    outer = check_broadcast_of((replace(left, sizes=left.sizes[:-2]), replace(right, sizes=right.sizes[:-2])))
    if outer is None:
        return None
    wrong = tuple(replace(whole, wrong=part.wrong) for whole, part in zip((left, right), outer.operands, strict=True))
    return Misfit((*operands[:first], *wrong, *operands[first + 2 :]), outer.rule)


def check_linear(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """The last axis of what a linear layer reads, against the width that its weights are made for."""
    wide, high = step.settings.get("in_features"), step.settings.get("out_features")
    weight = next((operand for operand in operands[1:] if len(operand.sizes) == 2), None)
    if weight is None and isinstance(wide, int) and isinstance(high, int):
        weight = Operand("weight", (high, wide))
        operands = (*operands, weight)
    if weight is None or not operands[0].sizes or operands[0].sizes[-1] == weight.sizes[-1]:
        return None
    read = operands[0].sizes[-1]
    rule = describe_width(read, weight.sizes[-1])
    return Misfit(tuple(mark(one, -1) if one in (operands[0], weight) else one for one in operands), rule)


def check_joined(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """Tensors put end to end agree on every axis but the one they are joined along."""
    along = step.settings.get("dim", 0)
    rank = len(operands[0].sizes) if operands else 0
    place = along % rank if isinstance(along, int) and rank else 0
    return check_alike(operands, place, f"every axis but {place} has to be equal")


def check_stacked(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """Tensors put on top of each other have one shape."""
    return check_alike(operands, None, "every axis has to be equal")


def check_alike(operands: tuple[Operand, ...], spared: int | None, rule: str) -> Misfit | None:
    if len({len(operand.sizes) for operand in operands}) > 1:
        counts = " and ".join(str(len(operand.sizes)) for operand in operands)
        return Misfit(operands, f"all have to have as many axes: {counts}")
    different = [
        place
        for place, sizes in enumerate(zip(*(operand.sizes for operand in operands), strict=True))
        if place != spared and len(set(sizes)) > 1
    ]
    if not different:
        return None
    seen = " and ".join(str(operand.sizes[different[0]]) for operand in operands[:4])
    return Misfit(tuple(mark(one, *different) for one in operands), f"{rule}: axis {different[0]} is {seen}")


def check_embedding(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """Ids against the rows of the table that they are looked up in."""
    rows, width = step.settings.get("num_embeddings"), step.settings.get("embedding_dim")
    if not isinstance(rows, int) or not isinstance(width, int) or "index" not in (step.error or "").lower():
        return None
    table = Operand("table", (rows, width), wrong=(0,))
    preview = step.inputs[0].preview if step.inputs else None
    known = [value for value in preview.values if isinstance(value, int)] if preview is not None else []
    largest = f"; the largest here is {max(known)}" if known else ""
    return Misfit((*operands, table), f"every id has to be from 0 to {rows - 1}{largest}")


def check_channels(step: Step, operands: tuple[Operand, ...], spatial: int) -> Misfit | None:
    """The channels that a convolution reads."""
    channels = step.settings.get("in_channels")
    place = len(operands[0].sizes) - 1 - spatial if operands else -1
    if not isinstance(channels, int):
        weight = operands[1] if len(operands) > 1 and len(operands[1].sizes) > 1 else None
        groups = step.settings.get("groups", 1)
        channels = weight.sizes[1] * groups if weight is not None and isinstance(groups, int) else None
    if place < 0 or channels is None or operands[0].sizes[place] == channels:
        return None
    rule = f"axis {place} holds {operands[0].sizes[place]:,} channels, but the weights are for {channels:,}"
    return Misfit((mark(operands[0], place), *operands[1:]), rule)


def check_recurrent(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """The last axis of what a recurrent layer reads."""
    wide = step.settings.get("input_size")
    if not isinstance(wide, int) or not operands or not operands[0].sizes or operands[0].sizes[-1] == wide:
        return None
    return Misfit((mark(operands[0], -1), *operands[1:]), describe_width(operands[0].sizes[-1], wide))


def check_features(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """The channels that a batch norm is made for, on axis 1."""
    wide = step.settings.get("num_features")
    if not isinstance(wide, int) or not operands or len(operands[0].sizes) < 2 or operands[0].sizes[1] == wide:
        return None
    rule = f"axis 1 holds {operands[0].sizes[1]:,} channels, but the norm is made for {wide:,}"
    return Misfit((mark(operands[0], 1), *operands[1:]), rule)


def check_broadcast(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """Tensors combined number by number."""
    return check_broadcast_of(operands)


def check_broadcast_of(operands: Sequence[Operand]) -> Misfit | None:
    """Sizes compared from the last axis on: each pair has to be equal, or one of them 1."""
    longest = max((len(operand.sizes) for operand in operands), default=0)
    for back in range(1, longest + 1):
        there = [operand for operand in operands if len(operand.sizes) >= back and operand.sizes[-back] != 1]
        sizes = list(dict.fromkeys(operand.sizes[-back] for operand in there))
        if len(sizes) > 1:
            rule = f"sizes have to be equal, or 1: {' and '.join(map(str, sizes))}"
            return Misfit(tuple(mark(one, -back) if one in there else one for one in operands), rule)
    return None


def check_asked_shape(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """A view or reshape that asks for another count of numbers than there are."""
    found = ASKED_SHAPE.search(step.error or "")
    if found is None or not operands:
        return None
    asked = tuple(int(size) for size in found[1].replace(" ", "").split(",") if size)
    have, free = prod(operands[0].sizes), -1 in asked
    wanted = prod(size for size in asked if size >= 0)
    told = f"a multiple of {wanted:,}" if free else f"{wanted:,}"
    goal = Operand("asked for", asked, wrong=tuple(place for place, size in enumerate(asked) if size >= 0))
    rule = f"both have to hold as many numbers: {have:,}, but the shape asked for holds {told}"
    if "multi_head_attention_forward" in (step.parent or ""):
        rule += ". Without batch_first=True the first axis is the length, the second the batch"
    return Misfit((operands[0], goal), rule)


def check_expected_shape(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """A norm over last axes that are not as wide as it was made for."""
    found = EXPECTED_SHAPE.search(step.error or "")
    if found is None or not operands:
        return None
    wanted = tuple(int(size) for size in found[1].replace(" ", "").split(",") if size)
    last = operands[0].sizes[-len(wanted) :]
    wrong = [place - len(wanted) for place, pair in enumerate(zip(last, wanted, strict=False)) if pair[0] != pair[1]]
    made_for = Operand("made for", wanted, wrong=tuple(place + len(wanted) for place in wrong))
    rule = f"the last axes are {write(last)}, but it was made for {write(wanted)}"
    return Misfit((mark(operands[0], *wrong), made_for), rule)


def check_broadcast_error(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """Any operation that says of itself that sizes do not match."""
    return check_broadcast_of(operands) if BROADCAST.search(step.error or "") else None


LOOKS = (look_by_operation, check_types, check_devices, check_asked_shape, check_expected_shape, check_broadcast_error)
"""Where to look for what does not fit, the surest first."""
