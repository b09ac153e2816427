"""The arithmetic of products: how many multiplications and additions a matrix product, a convolution, an LSTM takes.

One multiplication with the addition of its result counts as 2 FLOPs, and a bias as none: the convention of
torch.utils.flop_counter, which counts products alone. (fvcore counts the pair as 1.) Attention is counted as the full
product, also where a causal mask would spare half of it.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isqrt, prod

from xray.ir.trace import Step

LEFT_OPERANDS = {
    "linear": 0,
    "matmul": 0,
    "mm": 0,
    "bmm": 0,
    "mv": 0,
    "dot": 0,
    "vdot": 0,
    "vecdot": 0,
    "inner": 0,
    "addmm": 1,
    "addmv": 1,
    "baddbmm": 1,
    "linear_relu": 0,
    "int_mm": 0,
    "scaled_mm": 0,
    "linalg_matmul": 0,
    "linear_dynamic": 0,
    "linear_dynamic_fp16": 0,
    "linear_relu_dynamic": 0,
    "non_dynamically_quantizable_linear": 0,
}
"""For each operation that multiplies matrices, which of its inputs is the left one."""
CONVOLUTION = re.compile(
    r"(lazy_)?conv(?P<turned>_transpose|_transposed)?(_relu)?_?[123]d|(mkldnn_|cudnn_)?convolution(_overrideable)?"
)
GATES = {"lstm": 4, "gru": 3, "rnn": 1, "rnn_base": 1, "lstmcell": 4, "grucell": 3, "rnncell": 1}
"""How many products of its input and of its state a recurrent module takes."""
NATIVE = frozenset({"_native_multi_head_attention", "_transformer_encoder_layer_fwd"})
"""torch's own fast paths, each one operation: counted whole, and not again by what may stand inside."""


def count_product(step: Step) -> int | None:
    """The FLOPs of a product; None where the step is no product, or its record does not say how large it is."""
    if not step.outputs:
        return None
    name = step.op if step.op in OTHERS else step.op.lstrip("_")
    if name in LEFT_OPERANDS:
        return count_matrices(step, LEFT_OPERANDS[name])
    if name in GATES:
        return count_recurrence(step, GATES[name])
    if CONVOLUTION.fullmatch(name):
        return count_convolution(step)
    counter = OTHERS.get(name, count_attention if "attention" in name else None)
    return None if counter is None else counter(step)


def count_matrices(step: Step, place: int) -> int | None:
    """An output of shape (..., rows, columns) takes `inner` multiplications for each of its numbers.

    Of a sparse operand the record does not say how many numbers it holds.
    """
    if len(step.inputs) <= place or any(" sparse" in record.dtype for record in step.inputs):
        return None
    left = step.inputs[place].shape
    return 2 * prod(step.outputs[0].shape) * left[-1] if left else None


def count_batch_sum(step: Step) -> int | None:
    """addbmm: the products of a whole batch, added up."""
    if len(step.inputs) < 3 or not step.inputs[2].shape:
        return None
    return 2 * prod(step.inputs[1].shape) * step.inputs[2].shape[-1]


def count_grouped(step: Step) -> int | None:
    """Products of the rows of each group with the weights of its own, as experts take them."""
    return count_groups(*(record.shape for record in step.inputs[:2])) if len(step.inputs) > 1 else None


def count_groups(left: Sequence[int], right: Sequence[int]) -> int:
    """The FLOPs of products by groups, (rows, inner) x (groups, inner, columns): each row meets one group's weights.

    Also of (rows, inner) x (inner, columns) with an inner axis cut into groups, and where both have an axis of groups.
    Which row is of which group is data and makes no difference; rows behind the last group count as if they had one.
    """
    groups = left[0] if len(left) == len(right) == 3 else 1
    return 2 * groups * prod(left[-2:]) * right[-1]


def count_tensordot(step: Step) -> int | None:
    """Axes summed over occur on both sides and not in what is made, so their size is told by the three others."""
    if len(step.inputs) < 2:
        return None
    left, right, made = (prod(record.shape) for record in (*step.inputs[:2], step.outputs[0]))
    return 2 * made * isqrt(left * right // made) if made else 0


def count_bilinear(step: Step) -> int | None:
    """Each number made takes every pair of numbers of the two inputs."""
    if len(step.inputs) < 2 or not (step.inputs[0].shape and step.inputs[1].shape):
        return None
    return 2 * prod(step.outputs[0].shape) * step.inputs[0].shape[-1] * step.inputs[1].shape[-1]


def count_einsum(step: Step) -> int | None:
    """The products of an einsum, taken from left to right; an axis of only one operand is summed before.

    A pair that shares no axis to sum over is multiplied element by element, which is no product here.
    """
    said = next(
        (value for value in step.settings.values() if isinstance(value, str) and re.search("[A-Za-z]", value)), ""
    )
    left, _, made = said.replace(" ", "").partition("->")
    terms = left.split(",")
    shapes = [record.shape for record in step.inputs][: len(terms)]
    if not said or len(shapes) != len(terms):
        return None
    rank = max(
        (len(shape) - len(term.replace("...", "")) for shape, term in zip(shapes, terms, strict=True)), default=0
    )
    axes = [spell_axes(term, len(shape)) for term, shape in zip(terms, shapes, strict=True)]
    counts = Counter(letter for term in axes for letter in set(term))
    if "->" in said:
        wanted = spell_axes(made, len(made.replace("...", "")) + (rank if "..." in made else 0))
    else:
        wanted = [letter for letter, count in counts.items() if count == 1 or not letter.isalpha()]
    if any(len(term) != len(shape) for term, shape in zip(axes, shapes, strict=True)):
        return None
    sizes: dict[str, int] = {}
    for term, shape in zip(axes, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return multiply_pairwise([set(term) for term in axes], set(wanted), sizes)


def spell_axes(term: str, rank: int) -> list[str]:
    """The letters of a term, dots spelt as numbers from the right: "...ij" of rank 4 is 2, 1, i, j."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(str(place) for place in range(hidden, 0, -1)), *after]


def multiply_pairwise(terms: Sequence[set[str]], wanted: set[str], sizes: Mapping[str, int]) -> int:
    """The FLOPs of multiplying the terms one after the other, axes summed as soon as nothing later needs them."""
    done, flops = terms[0], 0
    for place, term in enumerate(terms[1:], start=1):
        later = wanted.union(*terms[place + 1 :])
        first, second = done & (term | later), term & (done | later)
        summed = (first & second) - later
        if summed:
            flops += 2 * prod(sizes[letter] for letter in first | second)
        done = (first | second) - summed
    return flops


def count_convolution(step: Step) -> int | None:
    """Each place that a kernel is laid on takes the whole of it; a transposed one is laid on the input."""
    weights = count_kernel(step)
    if weights is None or not step.inputs:
        return None
    turned = "transpose" in step.op or step.settings.get("transposed") is True
    places = (step.inputs[0] if turned else step.outputs[0]).shape
    spatial = len(step.inputs[1].shape) - 2 if is_function(step) else kernel_rank(step, len(places))
    batch = prod(places[: len(places) - spatial - 1])
    return 2 * batch * prod(places[len(places) - spatial :]) * weights


def kernel_rank(step: Step, rank: int) -> int:
    """Over how many axes a convolution module slides."""
    found = re.search(r"([123])d", step.op)
    return int(found[1]) if found else rank - 2


def count_kernel(step: Step) -> int | None:
    """How many weights a convolution has: those of its record as an operation, or told by its module's settings."""
    if is_function(step):
        return prod(step.inputs[1].shape)
    said = [step.settings.get(name) for name in ("in_channels", "out_channels", "groups")]
    inside, outside, groups = (value if isinstance(value, int) else 0 for value in said)
    if not (inside and outside and groups):
        return None
    pairs = inside * outside // groups
    kernel = step.settings.get("kernel_size")
    if isinstance(kernel, int) and not isinstance(kernel, bool):
        kernel = "x".join([str(kernel)] * kernel_rank(step, 4))
    if isinstance(kernel, str) and re.fullmatch(r"\d+(x\d+)*", kernel):
        return pairs * prod(map(int, kernel.split("x")))
    bias = (
        step.params % pairs if pairs > outside else -1
    )  # with one channel a group, a bias cannot be told from a kernel
    return step.params - bias if bias in (0, outside) else None


def is_function(step: Step) -> bool:
    """Whether a step got its weights as an input, as operations do and modules do not."""
    return not step.module and len(step.inputs) > 1


def count_recurrence(step: Step, gates: int) -> int | None:
    """For each word and layer and direction, the gates' products of the input and of the state before."""
    size, state = step.settings.get("input_size"), step.settings.get("hidden_size")
    if not isinstance(size, int) or not isinstance(state, int) or not step.inputs or not step.inputs[0].shape:
        return None
    words = prod(step.inputs[0].shape[:-1])
    layers, kept = step.settings.get("num_layers", 1), step.settings.get("proj_size", 0) or state
    directions = 2 if step.settings.get("bidirectional") else 1
    if not isinstance(layers, int) or not isinstance(kept, int):
        return None
    projection = kept * state if kept != state else 0
    widths = [size, *[kept * directions] * (layers - 1)]
    return sum(2 * words * directions * (gates * state * (width + kept) + projection) for width in widths)


def count_attention(step: Step) -> int | None:
    """Attention of any kernel that names what it is given: every query with every key, and with every value."""
    given = {record.name: record.shape for record in step.inputs}
    query, key, value = (given.get(name, ()) for name in ("query", "key", "value"))
    if min(len(query), len(key), len(value)) < 3:
        return None
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def count_native(step: Step) -> int | None:
    """torch's native attention, and the encoder layer around it: projections, scores, weighted sum, feed-forward."""
    given = {record.name: record.shape for record in step.inputs}
    query = given.get("query", given.get("src"))
    if query is None or len(query) != 3:
        return None
    batch, length, width = query
    keys = given.get("key", query)
    keys_length = keys[1] if len(keys) == 3 else length
    projections = 2 * batch * width * width * (2 * length + 2 * keys_length)
    attention = 4 * batch * length * keys_length * width
    inner = given.get("ffn_weight_1", (0,))[0]
    return projections + attention + 4 * batch * length * width * inner


OTHERS: Mapping[str, Callable[[Step], int | None]] = {
    "addbmm": count_batch_sum,
    **dict.fromkeys(("grouped_mm", "scaled_grouped_mm"), count_grouped),
    "tensordot": count_tensordot,
    "bilinear": count_bilinear,
    "einsum": count_einsum,
    **dict.fromkeys(NATIVE, count_native),
}
