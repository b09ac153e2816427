"""Operations that are no module, recorded as the user wrote them: `@`, `softmax`, `view`, indexing, F.*."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import BuiltinFunctionType, FrameType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode, handle_torch_function

from xray.capture.tensors import name_positional

HANDING_ON = handle_torch_function.__code__
TENSOR_PROPERTIES = {
    "T": "transpose",
    "mT": "transpose",
    "H": "adjoint",
    "mH": "adjoint",
    "real": "real",
    "imag": "imag",
}
"""Properties of a tensor that make another one."""

OWN_NAMES = {
    "__getitem__": "index",
    "__setitem__": "index_put_",
    "truediv": "div",
    "pos": "positive",
    "floordiv": "floor_divide",
}
NO_OPERATION = frozenset(
    {
        "size",
        "dim",
        "numel",
        "item",
        "tolist",
        "stride",
        "storage_offset",
        "is_contiguous",
        "element_size",
        "nelement",
        "get_device",
        "__len__",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "__format__",
        "__repr__",
        "__hash__",
        "__contains__",
        "requires_grad_",
        "retain_grad",
        "register_hook",
        "__deepcopy__",
        "data_ptr",
        "untyped_storage",
        "is_floating_point",
        "is_complex",
        "is_storage",
        "__array__",
        "numpy",
        "__iter__",
        "has_names",
        "is_same_size",
        "result_type",
        "can_cast",
        "allclose",
        "equal",
        "is_nonzero",
        "__dlpack__",
        "_is_view",
        "__dir__",
        "_has_compatible_shallow_copy_type",
        "manual_seed",
        "set_grad_enabled",
    }
)
"""What is asked of a tensor without making another one."""

ARGUMENTS = {
    "linear": ("input", "weight", "bias"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"),
    "index_put_": ("input", "index", "values"),
    "index": ("input", "index"),
    "where": ("condition", "input", "other"),
    "masked_fill": ("input", "mask", "value"),
    "masked_fill_": ("input", "mask", "value"),
    "softmax": ("input", "dim"),
    "log_softmax": ("input", "dim"),
    "transpose": ("input", "dim0", "dim1"),
    "embedding": ("input", "weight"),
    "dropout": ("input", "p", "training"),
    "cat": ("tensors", "dim"),
    "stack": ("tensors", "dim"),
    "conv1d": ("input", "weight", "bias"),
    "conv2d": ("input", "weight", "bias"),
    "conv3d": ("input", "weight", "bias"),
    "addmm": ("input", "mat1", "mat2"),
    "baddbmm": ("input", "batch1", "batch2"),
    "unsqueeze": ("input", "dim"),
    "squeeze": ("input", "dim"),
    "flatten": ("input", "start_dim", "end_dim"),
    "argmax": ("input", "dim"),
    "sum": ("input", "dim"),
    "mean": ("input", "dim"),
}
"""The argument names of operations that are written in C and do not tell them."""

TURNED_ROUND = frozenset(f"__r{name}__" for name in ("div", "truediv", "floordiv", "mod", "pow", "matmul"))
"""Operators of which a tensor is the second operand, as in `1 / x`; not those that give the same either way round."""


BUILT_IN = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)


class Watcher(Protocol):
    """Whoever wants to know of operations."""

    @property
    def is_blind(self) -> bool:
        """Whether operations are passed over at the moment."""

    def run(
        self,
        name: str,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        quiet: Callable[[], AbstractContextManager[Any]] | None = None,
        *,
        is_block: bool = False,
    ) -> Any:
        """Run the operation and note it; what is asked of tensors on the way is asked inside `quiet`.

        What a block does inside is seen at the level below.
        """


class OperationMode(TorchFunctionMode):
    """While it is on, every torch function that is watched for goes through it; the rest passes by."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self.watcher = watcher
        self.names: dict[Any, str | None] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            name = self.names[func]
        except KeyError:
            name = self.names[func] = name_operation(func)
        asked = sys._getframe(1)
        own = find_copy(asked.f_back) if asked.f_code is HANDING_ON else None
        func, is_block = (func, False) if own is None else (own, True)
        if is_block and asked.f_back is not None:
            args, kwargs = read_arguments(asked.f_back) or (args, kwargs)
        watcher = self.watcher
        if name is None or watcher.is_blind or (name == "type" and len(args) + len(kwargs or ()) < 2):
            return func(*args) if kwargs is None else func(*args, **kwargs)
        if types or torch._C._len_torch_function_stack():
            # somebody else is told of torch functions too, and must not hear of what is asked in passing
            return watcher.run(name, func, args, kwargs or {}, torch._C.DisableTorchFunction, is_block=is_block)
        return watcher.run(name, func, args, kwargs or {}, is_block=is_block)


def find_copy(frame: FrameType | None) -> Callable[..., Any] | None:
    """The function that hands itself on, be it by the name of one of torch's: a copy with changes, which has to run.

    None where it is torch's own.
    """
    if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] == "torch":
        return None
    own = frame.f_globals.get(frame.f_code.co_name)
    return own if getattr(own, "__code__", None) is frame.f_code else None


def read_arguments(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """What a function was called with, be it not all handed on; None where it takes any number of arguments."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) or not frame.f_locals.keys() >= {*names}:
        return None
    first, others = names[: code.co_posonlyargcount], names[code.co_posonlyargcount :]
    return tuple(frame.f_locals[one] for one in first), {one: frame.f_locals[one] for one in others}


def name_operation(func: Callable[..., Any]) -> str | None:
    """The operation's plain name, "add" for `+` and torch.add alike; None for what makes no tensor."""
    if isinstance(func, OpOverload):  # as exported programs call them: aten.linear.default
        func = func.overloadpacket
    name = getattr(func, "__name__", "") or type(func).__name__
    if name == "__get__":
        return TENSOR_PROPERTIES.get(getattr(getattr(func, "__self__", None), "__name__", ""))
    if name in NO_OPERATION or name in ("__set__", "__delete__"):
        return None
    if name in OWN_NAMES:
        return OWN_NAMES[name]
    if name.startswith("__") and name.endswith("__"):
        bare = name.strip("_")
        if bare.startswith("i") and hasattr(Tensor, f"__{bare[1:]}__"):
            bare = bare[1:] + "_"
        elif bare.startswith("r") and bare != "rsub" and hasattr(Tensor, f"__{bare[1:]}__"):
            bare = bare[1:]
        return OWN_NAMES.get(bare, bare)
    return name


def is_in_place(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation changes one of its inputs: `add_`, `x[...] = y`, `out=`."""
    return (name.endswith("_") and not name.endswith("__")) or kwargs.get("out") is not None


def name_operands(name: str, func: Callable[..., Any]) -> tuple[str, ...]:
    """The names of an operation's positional arguments, as far as they can be told."""
    known = ARGUMENTS.get(name)
    if known is not None:
        return known
    if isinstance(func, BUILT_IN):  # written in C: there is no signature to ask for
        return ("input", "other")
    if getattr(func, "__name__", "") in TURNED_ROUND:
        return ("other", "input")
    schema = getattr(func, "_schema", None) or read_schema(func)
    if schema is None:
        return name_positional(func)
    return tuple("attn_mask" if one.name == "attn_bias" else one.name for one in schema.arguments)


def read_schema(func: Any) -> Any:
    """The schema of an operation that has but one form, as those have that people add to torch."""
    if not isinstance(func, OpOverloadPacket):
        return None
    forms = func.overloads()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return getattr(func, forms[0])._schema if len(forms) == 1 else None
