"""Running a model without storage, and yet with the values of what does not hang on its weights.

Weights stay on the meta device. Ids, masks, positions and lengths are small and follow from the inputs alone, so they
are worked out for real: masks can be read, and a model may ask how long a sentence is, or where an image begins.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_leaves, tree_map_only

from xray.capture.values import OF_SINES, OF_WEIGHTS, is_of_sines
from xray.errors import TraceError

aten = torch.ops.aten
MOST_KNOWN = 1 << 22
"""What has more numbers than this is not worked out; a square mask for 2,048 words still is."""
MAKERS = frozenset(
    {
        aten.arange.default,
        aten.arange.start,
        aten.arange.start_step,
        aten.eye.default,
        aten.eye.m,
        aten.full.default,
        aten.full_like.default,
        aten.hamming_window.default,
        aten.hann_window.default,
        aten.hann_window.periodic,
        aten.linspace.default,
        aten.logspace.default,
        aten.new_full.default,
        aten.new_ones.default,
        aten.new_zeros.default,
        aten.ones.default,
        aten.ones_like.default,
        aten.scalar_tensor.default,
        aten.tril_indices.default,
        aten.triu_indices.default,
        aten.zeros.default,
        aten.zeros_like.default,
    }
)
"""Operations whose result is known without any tensor's values."""
GROUPED = frozenset({aten._grouped_mm.default} if hasattr(aten, "_grouped_mm") else ())
"""Products by groups, which on the meta device take bfloat16 of even widths alone, and elsewhere any numbers."""
PUTTING = frozenset({aten.index_put.default, aten.index_put_.default})
"""Operations that put values where they are told to."""

SET = aten.set_.default._schema.name
"""The operation that may leave a tensor its shape and gives it another storage."""

MASKS = (torch.bool, torch.uint8)
WHOLE = (torch.int64, torch.int32)
"""Types of ids, which no model takes from a tensor that it has not filled (timm's indices of relative places)."""
TENSORS = frozenset({Tensor, nn.Parameter})
NUMBERS = frozenset({type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format})
Shape = tuple[torch.Size, tuple[int, ...], torch.dtype]
Remake = Callable[[tuple[Any, ...]], Any]
"""What makes the result of an operation once more, given its arguments."""

FROM_DATA = frozenset({torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor})
"""Functions that make tensors of Python's numbers; torch drops the numbers where the device is "meta"."""


class LengthyError(TraceError):
    """A pass takes more operations than it may."""


@contextmanager
def known_values(most: int | None = None) -> Iterator[None]:
    """A block in which what can be known without weights is computed, and everything else has a shape alone.

    The devices "meta" and "cpu" are one: an operation is computed if all that it reads is known, else only its shape
    is. A known tensor that is overwritten with what is unknown loses its storage, and is unknown from then on.

    Raises:
        LengthyError: these are more operations than `most`.
    """
    with KeptData(), KnownValues(most):
        yield


class KeptData(TorchFunctionMode):
    """While it is on, tensors made of Python's numbers keep them, whatever the device."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in FROM_DATA:
            kwargs = {**kwargs, "device": "cpu"}
        elif func is torch.nn.functional.scaled_dot_product_attention and tree_any(is_unknown, (args, kwargs)):
            args, kwargs = to_meta(args), to_meta(kwargs)  # it wants all on one device before anybody else is asked
        elif func is Tensor.to and not args[0].is_meta:
            args, kwargs = stay(args), {name: value for name, value in kwargs.items() if name != "device"}
        return func(*args, **kwargs)


class KnownValues(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hook for subclasses untyped
    """While it is on, an operation is computed if all that it reads is known, else only its shape is."""

    def __init__(self, most: int | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.met: dict[tuple[Any, ...], Remake | None] = {}
        self.most, self.done = most, 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: compiled code runs as written here anyway, and to keep the compiler out torch would load it."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.done += 1
        if self.most is not None and self.done > self.most:
            raise LengthyError(
                f"it takes more than {self.most:,} operations. What is asked for by --image-size is waited for."
            )
        kwargs = dict(kwargs or {})
        if func is aten.empty.memory_format and kwargs.get("dtype") in WHOLE:
            func = aten.zeros.default
            kwargs.pop("memory_format", None)
        if func in MAKERS:
            return make(func, args, kwargs)
        if tree_any(is_unknown, (args, kwargs)):
            mark_written(func, args)
            return run_without_storage(func, args, kwargs, self.met)
        if is_on_meta(kwargs):
            if func is not aten._to_copy.default:
                return func(*args, **kwargs)
            del kwargs["device"]
        try:
            return func(*args, **kwargs)
        except NotImplementedError:  # a processor has no such operation for this type
            return run_without_storage(func, args, kwargs, self.met)


def build_on_meta(build: Callable[[], nn.Module]) -> nn.Module:
    """A model without storage: no parameter has values, its small constants have."""
    with known_values(), torch.device("meta"):
        model = build()
    known = [one for one in model.parameters() if not one.is_meta]
    bare = {id(one): nn.Parameter(shape_of(one.detach()), requires_grad=one.requires_grad) for one in known}
    for parameter in known:
        setattr(bare[id(parameter)], OF_SINES, is_of_sines(parameter))
    for module in model.modules():  # a parameter that stands in two places stays one
        for name, one in module._parameters.items():
            module._parameters[name] = bare.get(id(one), one)
        for name, held in module._buffers.items():
            if held is not None and held.dim() == 0 and name not in module._non_persistent_buffers_set:
                setattr(held, OF_WEIGHTS, True)
    return model


def mark_written(func: Any, args: tuple[Any, ...]) -> None:
    """Mark a tensor without storage into which sines are copied; what else is written into it takes the mark off."""
    name = func._schema.name.removeprefix("aten::")
    written = args[0] if name.endswith("_") and args and isinstance(args[0], Tensor) else None
    if written is not None and is_unknown(written):
        is_known = func is aten.copy_.default and isinstance(args[1], Tensor) and not is_unknown(args[1])
        if is_known and args[1].shape == written.shape and is_of_sines(args[1]):
            setattr(written, OF_SINES, True)
        elif hasattr(written, OF_SINES):
            delattr(written, OF_SINES)


def is_unknown(value: object) -> bool:
    """Whether something is a tensor without values."""
    return isinstance(value, Tensor) and (
        value.is_meta or (value.layout == torch.strided and value.numel() > 0 and not value.untyped_storage().size())
    )


def stay(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `Tensor.to` is called with, without a device: a tensor of the wanted type is handed on and not copied."""
    tensor, *wanted = args
    if wanted and isinstance(wanted[0], Tensor):
        wanted[0] = wanted[0].dtype
    if wanted and isinstance(wanted[0], (str, int, torch.device)):
        wanted = wanted[1:] or [tensor.dtype]
    return tensor, *wanted


def is_on_meta(kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation is asked for a tensor on the meta device."""
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "meta"


def make(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a factory gives: with values, unless it is large."""
    shape = func(*to_meta(args), **{**to_meta(kwargs), "device": "meta"})
    return shape if shape.numel() > MOST_KNOWN else func(*to_meta(args), **{**to_meta(kwargs), "device": "cpu"})


def run_without_storage(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], met: dict[tuple[Any, ...], Remake | None]
) -> Any:
    """The shape of a result; where the operation changes a known tensor, that one is known no more."""
    if func is aten.index.Tensor or func in PUTTING:
        args = (args[0], spell_out(args[1]), *args[2:])
        if func in PUTTING:
            check_put(*to_meta(args[:3]))
    if func is aten._to_copy.default:
        kwargs["device"] = "meta"
    lost = [
        value
        for argument, value in zip(func._schema.arguments, args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Tensor)
    ]
    if "device" in kwargs:
        kwargs["device"] = "meta"
    if func in GROUPED:
        return multiply_groups(*to_meta(args), **to_meta(kwargs))
    result = shape_of_result(func, args, kwargs, met)
    for tensor in lost:
        if not tensor.is_meta:
            tensor.untyped_storage().resize_(0)
            return tensor
    return result


def shape_of_result(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], met: dict[tuple[Any, ...], Remake | None]
) -> Any:
    """What an operation gives of tensors without storage.

    Layers that are alike ask the same again and again, and torch works out most shapes slowly, in Python. So what was
    met is made at once, if it is the tensor that was written into, or new tensors alone: each with a storage of its
    own, as no view has.
    """
    key: list[Any] = [func, torch.get_default_dtype()]
    if not tell_apart((args, kwargs), key):
        return func(*to_meta(args), **to_meta(kwargs))
    asked = tuple(key)
    remake = met.get(asked)
    if remake is not None:
        return remake(args)
    shapes, options = to_meta(args), to_meta(kwargs)
    before = [read_shape(one) for one in shapes[:1] if isinstance(one, Tensor)]
    result = func(*shapes, **options)
    if asked not in met:
        met[asked] = find_remake(func, result, shapes, options, before)
    return result


def find_remake(
    func: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], before: list[Shape]
) -> Remake | None:
    """How a result is made once more of arguments of the same shapes, if that is known."""
    if args and result is args[0]:
        is_kept = func._schema.name != SET and before == [read_shape(result)]
        return itemgetter(0) if is_kept else None
    if is_new(result, (args, kwargs)):
        return partial(make_empty, read_shape(result))
    several = type(result) is tuple and all(isinstance(one, Tensor) for one in result)
    if several and all(is_new(one, (args, kwargs, *result[:place])) for place, one in enumerate(result)):
        return partial(make_several, [read_shape(one) for one in result])
    return None


def read_shape(tensor: Tensor) -> Shape:
    """A tensor's size, strides and type."""
    return tensor.shape, tensor.stride(), tensor.dtype


def make_empty(shape: Shape, _args: tuple[Any, ...] = ()) -> Tensor:
    """A new tensor without storage."""
    size, stride, dtype = shape
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


def make_several(shapes: list[Shape], _args: tuple[Any, ...] = ()) -> tuple[Tensor, ...]:
    """New tensors without storage."""
    return tuple(make_empty(shape) for shape in shapes)


def tell_apart(value: Any, key: list[Any]) -> bool:
    """Add to a key all that the shape of a result hangs on; no where something stands there that is not known."""
    if isinstance(value, Tensor):
        key += value.shape, value.stride(), value.dtype
        return is_plain(value)
    if isinstance(value, dict):
        key.append(tuple(value))
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        key += type(value), value
        return type(value) in NUMBERS
    key.append(len(value))
    return all(tell_apart(one, key) for one in value)


def is_plain(value: Any) -> bool:
    """Whether something is a tensor that is all told with its shape, strides and type."""
    return type(value) in TENSORS and value.layout == torch.strided and not (value.is_conj() or value.is_neg())


def is_new(result: Any, given: Any) -> bool:
    """Whether a result is one plain tensor that fills a storage of its own."""
    if not is_plain(result):
        return False
    storage = result.untyped_storage()
    alone = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device="meta")
    return (
        result.storage_offset() == 0
        and storage.nbytes() == alone.untyped_storage().nbytes()
        and all(one.untyped_storage()._cdata != storage._cdata for one in tree_leaves(given) if isinstance(one, Tensor))
    )


def multiply_groups(
    one: Tensor, other: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """The shape of a product by groups; where a tensor has two axes, `offs` says where along it each group ends."""
    shape = {
        (2, 3): (one.shape[0], other.shape[-1]),
        (3, 2): (one.shape[-2], other.shape[-1]),
        (3, 3): (one.shape[0], one.shape[-2], other.shape[-1]),
        (2, 2): (len(offs) if offs is not None else 1, one.shape[0], other.shape[-1]),
    }[one.dim(), other.dim()]
    return torch.empty(shape, dtype=out_dtype or one.dtype, device="meta")


def spell_out(indices: Any) -> list[Tensor | None]:
    """Indices in which a known mask is the list of its places, so that their number is known."""
    spelt: list[Tensor | None] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in MASKS and not is_unknown(index):
            spelt.extend(index.nonzero().unbind(-1))
        else:
            spelt.append(index)
    return spelt


def check_put(rows: Tensor, indices: Any, values: Tensor) -> None:
    """Make sure that values fit where they are put, which torch does not ask without storage.

    Raises:
        RuntimeError: as torch itself raises it with numbers.
    """
    if any(one is not None and one.dtype in MASKS for one in indices):
        return  # how many places a mask has that is not known, nobody knows
    place = aten.index.Tensor(rows, indices).shape
    fits = len(values.shape) <= len(place) and all(
        own in (1, there) for own, there in zip(reversed(values.shape), reversed(place), strict=False)
    )
    if not fits:
        told = f"value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape"
        raise RuntimeError(f"shape mismatch: {told} {list(place)}")


def to_meta(values: Any) -> Any:
    """The same arguments, every tensor without storage."""
    return tree_map_only(Tensor, shape_of, values)


def shape_of(tensor: Tensor) -> Tensor:
    """A tensor of the same shape, type and strides without storage."""
    if tensor.is_meta:
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
