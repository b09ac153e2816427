"""How long tensors live while a model runs: what is held at every moment, and the arithmetic that was done."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from xray.ir.cost import Memory, MemoryKind
from xray.ir.products import count_groups

aten = torch.ops.aten


class Lifetimes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hook for subclasses untyped
    """While it is on, every storage is entered when it is made and struck out when it is freed.

    Storages of tensors without numbers count as if they had them. `flops` adds up the products, `rows` says how many
    rows each stack of expert weights multiplied, `lookups` how many rows of each table were looked up; a table that is
    `multiplied` as well is met as a whole.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.events: list[tuple[int, int, str]] = []
        self.kinds: dict[int, MemoryKind] = {}
        self.flops = 0
        self.rows: dict[int, tuple[int, int, int]] = {}
        self.lookups: dict[int, tuple[int, int, int]] = {}
        self.multiplied: set[int] = set()
        self.place = ""
        self._held: dict[int, tuple[int, Any]] = {}
        self._numbers = self._calls = 0
        self._running: list[int] = []
        self._places: list[str] = []
        self._passing: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and value.layout == torch.strided:
                self.enter(value)
        packet = func._overloadpacket
        count = COUNTS.get(packet) or flop_registry.get(packet)
        if count is not None:
            self.flops += int(count(*args, **(kwargs or {}), out_val=result))
            self.multiplied |= {one.untyped_storage()._cdata for one in args if isinstance(one, Tensor)}
        if packet is aten.embedding:
            table = args[0]
            self.lookups[table.untyped_storage()._cdata] = (args[1].numel(), table.shape[0], table.numel())
        if packet is GROUPED and args[1].dim() == 3 and args[0].dim() == 2:
            storage = args[1].untyped_storage()
            self.rows[storage._cdata] = (args[0].shape[0], args[1].shape[0], args[1].numel())
        return result

    def enter(self, tensor: Tensor, kind: MemoryKind | None = None) -> None:
        """Note that a tensor's storage lives, and what it is."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self._held.get(key)
        if known is None:
            self._numbers += 1
            number, size = self._numbers, storage.nbytes()
            maker = self._running[-1] if self._running else 0

            def strike_out(
                _: object, key: int = key, number: int = number, size: int = size, maker: int = maker
            ) -> None:
                if maker in self._running:
                    self._passing.add(number)
                held = self._held.get(key)
                if held is not None and held[0] == number:
                    del self._held[key]
                self.events.append((number, -size, self.place))

            known = self._held[key] = (number, weakref.ref(storage, strike_out))
            self.events.append((number, size, self.place))
        if kind is not None:
            self.kinds[known[0]] = kind

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """A block in which the model's places are known, and gradients are told from other tensors."""
        with ExitStack() as hooks:
            for name, module in model.named_modules():
                hooks.callback(
                    module.register_forward_pre_hook(partial(self._begin, name or type(model).__name__)).remove
                )
                hooks.callback(module.register_forward_hook(self._end, always_call=True).remove)
            for one in model.parameters():
                if one.requires_grad:
                    handle = one.register_post_accumulate_grad_hook(self._see_gradient)  # type: ignore[no-untyped-call]
                    hooks.callback(handle.remove)
            with self:
                yield

    def peak(self) -> Memory:
        """The moment at which the most was held."""
        now = most = 0
        at = -1
        for place, (_, size, _) in enumerate(self.events):
            now += size
            if now > most:
                most, at = now, place
        live = Counter[int]()
        for number, size, _ in self.events[: at + 1]:
            live[number] += size
        kinds = Counter[MemoryKind]()
        for number, size in live.items():
            kinds[self.kinds.get(number, "workspace" if number in self._passing else "activations")] += size
        return Memory(most, {kind: size for kind, size in kinds.items() if size}, self.events[at][2] if at >= 0 else "")

    @contextmanager
    def within(self, place: str) -> Iterator[None]:
        """A block with a name of its own, as a module has: what is made and freed again in it is workspace."""
        self._begin(place)
        try:
            yield
        finally:
            self._end()

    def _begin(self, place: str, *_: object) -> None:
        self._calls += 1
        self._running.append(self._calls)
        self._places.append(place)
        self.place = place

    def _end(self, *_: object) -> None:
        self._running.pop()
        self._places.pop()
        self.place = self._places[-1] if self._places else ""

    def _see_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self.enter(parameter.grad, "gradients")


def count_grouped(one: Tensor, other: Tensor, *_: Any, out_val: Any = None, **__: Any) -> int:
    """The FLOPs of products by groups."""
    return count_groups(one.shape, other.shape)


def count_attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """The FLOPs of fused attention, forward."""
    heads = query.shape[:2]  # several may share keys and values
    shapes = query.shape, (*heads, *key.shape[2:]), (*heads, *value.shape[2:])
    flops: int = sdpa_flop_count(*shapes)  # type: ignore[no-untyped-call]
    return flops


def count_attention_backward(out: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """The FLOPs of fused attention, backward, in which the scores are made once more."""
    shapes = ((*query.shape[:2], *one.shape[2:]) for one in (out, query, key, value))
    flops: int = sdpa_backward_flop_count(*shapes)  # type: ignore[no-untyped-call]
    return flops


GROUPED = getattr(aten, "_grouped_mm", None)
COUNTS: Mapping[Any, Callable[..., int]] = {
    GROUPED: count_grouped,
    aten._scaled_dot_product_flash_attention_for_cpu: count_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: count_attention_backward,
}
"""Products that torch's own counter does not know."""


def enter_all(lifetimes: Lifetimes, tensors: Iterable[Tensor], kind: MemoryKind) -> None:
    """Note that these live before anything runs."""
    for tensor in tensors:
        lifetimes.enter(tensor, kind)
