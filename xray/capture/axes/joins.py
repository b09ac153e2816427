"""Which axes an operation keeps: it joins what goes in with what comes out, by what it does and never by size alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from xray.capture.axes.groups import Groups
from xray.capture.kernels.fused import ATTENTIONS
from xray.ir.flow.written_linears import sums_last
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.ir.turns import TURNED, read_turn

KEEPING = (
    "add sub mul div add_ sub_ mul_ div_ relu relu_ gelu silu silu_ tanh sigmoid softmax log_softmax dropout dropout_ "
    "layer_norm rms_norm batch_norm clone contiguous to float bfloat16 half double long int type_as masked_fill "
    "masked_fill_ scale mask_scores pow neg identity where exp log detach sqrt rsqrt square abs clamp minimum maximum "
    "rsub eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not cumsum roll tril "
    "triu cos sin native_dropout native_layer_norm zeros_like ones_like full_like empty_like rand_like randn_like flip "
    "leaky_relu elu hardswish hardtanh mish softplus erf expand expand_as broadcast_to copy_ nan_to_num normalize"
)
ELEMENTWISE = frozenset(KEEPING.split())
"""What keeps every axis where it stands, counted from the right."""
OF_A_TYPE = frozenset({"to", "type_as"})
"""What takes the type alone of a tensor that it is given next."""
VIEWS = frozenset({"view", "reshape", "flatten", "unflatten", "unsafe_view", "view_as", "reshape_as"})
CUTS = frozenset(
    ("chunk", "split", "tensor_split", "split_with_sizes", "narrow", "cat", "concat", "pad", "repeat_interleave")
)
"""What keeps the order of the axes, and may change the length of some."""


class Tensors:
    """The axes of one step's tensors, by number: those of input 2 begin at `ins[2]`."""

    def __init__(self, step: Step, groups: Groups) -> None:
        self.ins = [groups.add(record.shape) for record in step.inputs]
        self.outs = [groups.add(record.shape) for record in step.outputs]


def join_step(step: Step, at: Tensors, groups: Groups, op: str) -> None:
    """Join the axes that the operation keeps, `op` being what it does."""
    if not step.outputs or not step.inputs:
        return
    if op in ELEMENTWISE or is_called_norm(step):
        join_from_the_right(step, at, groups)
    elif op in VIEWS and not step.module:
        join_view(step.inputs[0].shape, at.ins[0], step.outputs[0].shape, at.outs[0], groups)
    elif op in CUTS:
        join_in_place(step, at, groups)
    else:
        joiner = JOINERS.get(op) or (join_attention if op in ATTENTIONS else None)
        if joiner is not None:
            joiner(step, at, groups)


def is_called_norm(step: Step) -> bool:
    """Whether a step's word ends as that of a norm or an activation does, and it works on one tensor.

    A module of such a word that is given more may well do more: SqueezeBERT's goes through a convolution first.
    """
    given = [record for record in step.inputs if record.role != "parameter"]
    return step.op.removesuffix("d").rstrip("123").endswith(("norm", "activation")) and len(given) == 1


def list_laid(step: Step) -> tuple[TensorRecord, ...]:
    """The tensors of which an operation keeps the axes."""
    return step.inputs[:1] if step.op in OF_A_TYPE else step.inputs


def join_from_the_right(step: Step, at: Tensors, groups: Groups) -> None:
    rank = len(step.outputs[0].shape)
    for number, record in enumerate(list_laid(step)):
        for back in range(1, min(len(record.shape), rank) + 1):
            axis = at.ins[number] + len(record.shape) - back
            if not groups.is_stretched(axis):
                groups.join(axis, at.outs[0] + rank - back)


def stretch_axes(step: Step, at: Tensors, groups: Groups) -> None:
    """Mark axes of size 1 that an operation stretches along longer ones: a cosine of every head is no one's own."""
    if step.op in ELEMENTWISE and step.outputs:
        made = step.outputs[0].shape
        for number, record in enumerate(list_laid(step)):
            for back in range(1, min(len(record.shape), len(made)) + 1):
                if record.shape[-back] == 1 < made[-back]:
                    groups.stretch(at.ins[number] + len(record.shape) - back)


def join_in_place(step: Step, at: Tensors, groups: Groups) -> None:
    """Every axis where it was, if it is as long as before."""
    dim = step.settings.get("dim", 0 if step.op in ("cat", "concat") else None)
    if step.op in ("cat", "concat") and sum(prod(record.shape) > 0 for record in step.inputs) == 1:
        dim = None  # the others are empty, so the one that is not is kept whole
    for number, record in enumerate(step.inputs):
        rank = len(record.shape)
        for other, made in enumerate(step.outputs):
            if len(made.shape) == rank:
                cut = dim % rank if isinstance(dim, int) and rank else None
                for axis in range(rank):
                    if axis != cut:
                        groups.join(at.ins[number] + axis, at.outs[other] + axis)


def join_view(old: Sequence[int], first_old: int, new: Sequence[int], first_new: int, groups: Groups) -> None:
    """A reshape, read from the left: axes stay where the products of the sizes before and after them agree."""
    here, there = 0, 0
    while here < len(old) and there < len(new):
        if prod(old) == 0:
            return
        end, stop, left, right = here + 1, there + 1, old[here], new[there]
        while left != right:
            if left < right and end < len(old):
                left *= old[end]
                end += 1
            elif stop < len(new):
                right *= new[stop]
                stop += 1
            else:
                return
        olds = [first_old + axis for axis in range(here, end) if old[axis] != 1 or end - here == 1]
        news = [first_new + axis for axis in range(there, stop) if new[axis] != 1 or stop - there == 1]
        join_pieces(olds, news, groups)
        here, there = end, stop


def join_pieces(olds: list[int], news: list[int], groups: Groups) -> None:
    if len(olds) == len(news) == 1:
        groups.join(olds[0], news[0])
    elif len(olds) == 1:
        groups.compose(olds[0], news)
    elif len(news) == 1:
        groups.compose(news[0], olds)
    elif len(olds) == len(news) == 2 and groups.size(news[0]) % groups.size(olds[0]) == 0:
        # (batch, heads*d_k) -> (batch*heads, d_k): what moved over is an axis that no tensor shows
        moved = groups.add([groups.size(news[0]) // groups.size(olds[0])])
        groups.compose(olds[1], [moved, news[1]])
        groups.compose(news[0], [olds[0], moved])


def join_turned(step: Step, at: Tensors, groups: Groups) -> None:
    """Axes that were put in another order; what a module turns is not read off its settings."""
    for axis, origin in enumerate(read_turn(step) or () if not step.module else ()):
        groups.join(at.ins[0] + origin, at.outs[0] + axis)


def join_product(step: Step, at: Tensors, groups: Groups) -> None:
    """Rows from the left, columns from the right, what is between from both, and what stands before from any."""
    skip = 1 if step.op in ("addmm", "baddbmm") else 0
    if len(step.inputs) < skip + 2 or step.module not in ("", "MatMul"):
        return
    left, right, out = len(step.inputs[skip].shape), len(step.inputs[skip + 1].shape), len(step.outputs[0].shape)
    if left < 2 or right < 2 or out < 2:
        return
    rows, columns, made = at.ins[skip] + left, at.ins[skip + 1] + right, at.outs[0] + out
    groups.join(rows - 2, made - 2)
    groups.join(columns - 1, made - 1)
    groups.join(rows - 1, columns - 2)
    for back in range(3, out + 1):
        if back <= left:
            groups.join(rows - back, made - back)
        if back <= right:
            groups.join(columns - back, made - back)


def join_summed(step: Step, at: Tensors, groups: Groups) -> None:
    """A sum over an axis of rows and one of a matrix keeps all axes but the last where that is the one of the rows."""
    if len(step.inputs) == 2 and len(step.inputs[1].shape) == 2 and sums_last(step):
        join_leading(step, at, groups)


def join_leading(step: Step, at: Tensors, groups: Groups) -> None:
    """A linear layer keeps all axes but the last; an embedding adds one behind those of the ids."""
    ids = step.op in ("embedding", "index")
    first = next((n for n, one in enumerate(step.inputs) if one.role == "ids"), 0) if ids else 0
    rank, made = len(step.inputs[first].shape), len(step.outputs[0].shape)
    for axis in range(min(rank - (not ids), made - 1)):
        groups.join(at.ins[first] + axis, at.outs[0] + axis)


def join_convolved(step: Step, at: Tensors, groups: Groups) -> None:
    """A convolution that reads one place for each keeps all axes but the channels, as a linear layer does."""
    kernel, stride, padding = (str(step.settings.get(name, "")) for name in ("kernel_size", "stride", "padding"))
    before, after = step.inputs[0].shape, step.outputs[0].shape
    is_lone = set(kernel.split("x")) == set(stride.split("x")) == {"1"} and set(padding.split("x")) == {"0"}
    if is_lone and len(before) == len(after) == len(("batch", "channels")) + int(step.op[len("conv")]):
        for axis in range(len(before)):
            if axis != 1:
                groups.join(at.ins[0] + axis, at.outs[0] + axis)


def join_unbind(step: Step, at: Tensors, groups: Groups) -> None:
    rank, dim = len(step.inputs[0].shape), step.settings.get("dim", step.settings.get("other", 0))
    if not isinstance(dim, int) or not rank:
        return
    for number, part in enumerate(step.outputs):
        for axis in range(len(part.shape)):
            groups.join(at.ins[0] + axis + (axis >= dim % rank), at.outs[number] + axis)


def join_unsqueeze(step: Step, at: Tensors, groups: Groups) -> None:
    rank, dim = len(step.outputs[0].shape), step.settings.get("dim")
    if isinstance(dim, int) and rank == len(step.inputs[0].shape) + 1:
        for axis in range(rank - 1):
            groups.join(at.ins[0] + axis, at.outs[0] + axis + (axis >= dim % rank))


def join_stacked(step: Step, at: Tensors, groups: Groups) -> None:
    """Tensors of one shape, one behind the other along an axis of their own."""
    rank, dim = len(step.outputs[0].shape), step.settings.get("dim", 0)
    if isinstance(dim, int) and all(len(record.shape) == rank - 1 for record in step.inputs):
        for first in at.ins:
            for axis in range(rank - 1):
                groups.join(first + axis, at.outs[0] + axis + (axis >= dim % rank))


def join_squeeze(step: Step, at: Tensors, groups: Groups) -> None:
    dim, shape = step.settings.get("dim"), step.inputs[0].shape
    gone = {dim % len(shape)} if isinstance(dim, int) and shape else set(range(len(shape)))
    kept = [axis for axis, size in enumerate(shape) if size != 1 or axis not in gone]
    if len(kept) == len(step.outputs[0].shape):
        for axis, origin in enumerate(kept):
            groups.join(at.ins[0] + origin, at.outs[0] + axis)


def join_index(step: Step, at: Tensors, groups: Groups) -> None:
    """`x[:, -1]`, `x[:, :, None]`: a number takes an axis away, None adds one, `...` stands for the rest."""
    text, rank = step.settings.get("index"), len(step.inputs[0].shape)
    if isinstance(text, int):
        text = str(text)
    if not isinstance(text, str):
        return
    marks = [mark.strip() for mark in text.split(",")]
    used = sum(mark not in ("None", "...") for mark in marks)
    full = [one for mark in marks for one in ([":"] * (rank - used) if mark == "..." else [mark])]
    full += [":"] * (rank - sum(mark != "None" for mark in full))
    origin, axis = 0, 0
    for mark in full:
        if mark == "None":
            axis += 1
        elif ":" in mark:
            if origin < rank and axis < len(step.outputs[0].shape):
                groups.join(at.ins[0] + origin, at.outs[0] + axis)
            origin, axis = origin + 1, axis + 1
        else:
            origin += 1


def join_reduced(step: Step, at: Tensors, groups: Groups) -> None:
    """A sum or mean over some axes keeps the others."""
    rank, made = len(step.inputs[0].shape), len(step.outputs[0].shape)
    dim = step.settings.get("dim")
    dims = [int(part) % rank for part in str(dim).split("x")] if dim is not None and rank else list(range(rank))
    kept = [axis for axis in range(rank) if axis not in dims] if made != rank else list(range(rank))
    if len(kept) == made:
        for axis, origin in enumerate(kept):
            groups.join(at.ins[0] + origin, at.outs[0] + axis)


def join_einsum(step: Step, at: Tensors, groups: Groups) -> None:
    """The letters of the equation say which axis is which."""
    equation = next((value for value in step.settings.values() if isinstance(value, str) and "->" in value), "")
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow or "." in equation or len(left.split(",")) != len(step.inputs):
        return
    letters: dict[str, int] = {}
    for text, first, record in zip(
        (*left.split(","), right), (*at.ins, at.outs[0]), (*step.inputs, step.outputs[0]), strict=True
    ):
        if len(text) != len(record.shape):
            return
        for axis, letter in enumerate(text):
            groups.join(letters.setdefault(letter, first + axis), first + axis)


def join_attention(step: Step, at: Tensors, groups: Groups) -> None:
    """The output has the queries' rows and the values' columns."""
    rank = len(step.outputs[0].shape)
    if rank == len(step.inputs[0].shape):
        for axis in range(rank - 1):
            groups.join(at.ins[0] + axis, at.outs[0] + axis)
    if len(step.inputs) > 2 and rank > 1 and all(len(record.shape) == rank for record in step.inputs[:3]):
        query, key, value = at.ins[:3]
        groups.join(value + rank - 1, at.outs[0] + rank - 1)
        groups.join(key + rank - 1, query + rank - 1)
        for axis in range(rank - 1):
            groups.join(key + axis, value + axis)
        for axis in range(rank - 2):
            groups.join(query + axis, key + axis)


def join_written(step: Step, at: Tensors, groups: Groups) -> None:
    """What other rows are written into keeps its axes; a mask that says where has them too."""
    kept = step.inputs[: 2 if step.op.startswith("masked") else 1]
    join_from_the_right(replace(step, inputs=kept), at, groups)


Joiner = Callable[[Step, Tensors, Groups], None]
WRITING = "masked_scatter index_put index_copy index_add scatter scatter_add slice_scatter select_scatter"
JOINERS: Mapping[str, Joiner] = {
    **dict.fromkeys(TURNED, join_turned),
    **dict.fromkeys(("matmul", "bmm", "mm", "addmm", "baddbmm"), join_product),
    **dict.fromkeys(("linear", "embedding"), join_leading),
    **dict.fromkeys((op + end for op in WRITING.split() for end in ("", "_")), join_written),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "argmax", "argmin", "all", "any", "logsumexp"), join_reduced),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), join_convolved),
    "unbind": join_unbind,
    "select": join_unbind,
    "unsqueeze": join_unsqueeze,
    "squeeze": join_squeeze,
    "stack": join_stacked,
    "index": join_index,
    "einsum": join_einsum,
    "tensordot": join_summed,
}
