"""What ranks say to each other, as steps: all_reduce, all_gather, reduce_scatter, all_to_all, with bytes and group."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from xray.capture.calls import OpenCall
from xray.capture.journal import Journal, Lane
from xray.capture.parts import Part, is_divided, unwrap
from xray.capture.sight import Sight
from xray.capture.way_back import WayBack, find_holder
from xray.ir.trace import Setting

task_id = torch._C._current_graph_task_id
NAMES: Mapping[str, str] = {
    "_c10d_functional::all_reduce": "all_reduce",
    "_c10d_functional::all_reduce_": "all_reduce",
    "_c10d_functional::all_reduce_coalesced": "all_reduce",
    "_c10d_functional::all_reduce_coalesced_": "all_reduce",
    "_c10d_functional::all_gather_into_tensor": "all_gather",
    "_c10d_functional::all_gather_into_tensor_coalesced": "all_gather",
    "_c10d_functional::all_gather_into_tensor_out": "all_gather",
    "_c10d_functional::reduce_scatter_tensor": "reduce_scatter",
    "_c10d_functional::reduce_scatter_tensor_coalesced": "reduce_scatter",
    "_c10d_functional::reduce_scatter_tensor_out": "reduce_scatter",
    "_c10d_functional::all_to_all_single": "all_to_all",
    "_c10d_functional::broadcast": "broadcast",
    "_c10d_functional::broadcast_": "broadcast",
    "_c10d_functional_autograd::all_gather_into_tensor": "all_gather",
    "_c10d_functional_autograd::reduce_scatter_tensor": "reduce_scatter",
    "_c10d_functional_autograd::all_to_all_single": "all_to_all",
    "_dtensor::shard_dim_alltoall": "all_to_all",
    "c10d::allreduce_": "all_reduce",
    "c10d::allreduce_coalesced_": "all_reduce",
    "c10d::_allgather_base_": "all_gather",
    "c10d::allgather_": "all_gather",
    "c10d::allgather_coalesced_": "all_gather",
    "c10d::allgather_into_tensor_coalesced_": "all_gather",
    "c10d::_reduce_scatter_base_": "reduce_scatter",
    "c10d::reduce_scatter_": "reduce_scatter",
    "c10d::reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "c10d::alltoall_": "all_to_all",
    "c10d::alltoall_base_": "all_to_all",
    "c10d::broadcast_": "broadcast",
    "c10d::reduce_": "reduce",
    "c10d::gather_": "gather",
    "c10d::scatter_": "scatter",
    "c10d::send": "send",
    "c10d::recv_": "recv",
}
"""The operations by which ranks exchange tensors, and what people call them."""
OF_WEIGHTS = frozenset({"c10d::_allgather_base_", "c10d::allgather_into_tensor_coalesced_"})
"""By these FSDP fetches the weights of a layer before it computes."""
OF_THE_WAY_BACK: Mapping[str, Setting] = {"during": "backward"}


class CollectiveMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hook for subclasses untyped
    """While it is on, every exchange between ranks is noted as a step; all else passes by.

    It asks to see DTensors only after they have become operations on this rank's parts, and exchanges between them.
    """

    supports_higher_order_operators = True

    def __init__(
        self, journal: Journal, sight: Sight, lane: Lane, groups: Mapping[str, str], way_back: WayBack
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.journal = journal
        self.sight = sight
        self.lane = lane
        self.groups = groups
        self.way_back = way_back

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: see `InnerMode`."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return func(*args, **kwargs)
        if any(map(is_kind_divided, types)):
            return NotImplemented
        name = NAMES.get(func._schema.name)
        if name is None or not self.journal.passes:
            return func(*args, **kwargs)
        return self.run(name, func, args, kwargs)

    def run(self, name: str, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of the exchange, which is noted on the way."""
        given = {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)} | dict(kwargs)
        with torch._C.DisableTorchFunction():
            if task_id() != -1:
                (call, told), leaf = self.begin_back(name, given), None
            else:
                call, leaf = self.begin(name, func._schema.name, given)
                told = {"of": "weights"} if func._schema.name in OF_WEIGHTS and find_holder() is not None else {}
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            made = list_made(given) or [one for one in find_all(result) if isinstance(one, Tensor)]
            self.note_made(call, made)
            call.settings = {**describe(given, made, self.groups), **told}
        if leaf is not None:
            leaf.handed_on = call
        return result

    def begin(self, name: str, full_name: str, given: Mapping[str, Any]) -> tuple[OpenCall, OpenCall | None]:
        """The step, with what it is given.

        A plain layer stays a leaf: what it does before it computes stands before it, what it does with its result
        behind it; then it comes too.
        """
        lane, journal = self.lane, self.journal
        running = lane.running
        leaf = running[-1] if running and lane.blindness[-1] and not lane.strangers else None
        above = lane.innermost if leaf is None else leaf.parent
        line = None if above is None else above.line
        path = name if above is None else f"{above.path}.{name}"
        call = OpenCall(next(journal.serials), path, name, above, line)
        calls, tensors = journal.passes[-1].calls, list_given(given)
        place = len(calls)
        if leaf is not None:
            known = [self.sight.find(one) for one in tensors]
            comes_before = full_name in OF_WEIGHTS or all(one is not None for one in known)
            if comes_before and leaf.handed_on is None:
                place, leaf = calls.index(leaf), None
            elif leaf.handed_on is None:
                leaf.outputs = [self.sight.see_part("out", one, leaf) for one in tensors]
        calls.insert(place, call)
        call.inputs = [self.sight.see_given(spell("in", n, tensors), one, call) for n, one in enumerate(tensors)]
        return call, leaf

    def begin_back(self, name: str, given: Mapping[str, Any]) -> tuple[OpenCall, Mapping[str, Setting]]:
        """The step inside back-propagation, by the path of the module whose way back it is, and what is told of it."""
        (path, of), above = self.way_back.find_place(name), self.lane.back
        call = OpenCall(
            next(self.journal.serials), f"{path}.{name}" if path else name, name, above, above.line if above else None
        )
        self.journal.passes[-1].calls.append(call)
        tensors = list_given(given)
        call.inputs = [self.sight.see_given(spell("in", n, tensors), one, call) for n, one in enumerate(tensors)]
        return call, {**OF_THE_WAY_BACK, **({"of": of} if of else {})}

    def note_made(self, call: OpenCall, made: Sequence[Tensor]) -> None:
        """What the exchange leaves on this rank; of a sum, the whole has the shape that it had before."""
        whole = call.inputs[0][1] if call.op == "all_reduce" and len(call.inputs) == len(made) == 1 else None
        part = None if whole is None or whole.part is None else add_up(whole.part)
        shape = None if whole is None or part is None else whole.shape
        call.outputs = [
            self.sight.see_part(spell("out", n, made), one, call, shape=shape, part=part) for n, one in enumerate(made)
        ]


def add_up(part: Part) -> Part:
    """A part after the ranks have added theirs up; where two axes of the mesh are to be, which one is not known."""
    words = (part.placement or "[]").strip("[]").split(", ")
    sums = [word for word in words if word.startswith("P")]
    told = f"[{', '.join('R' if word in sums else word for word in words)}]" if len(sums) == 1 else None
    return Part(part.local, told)


def is_kind_divided(kind: type) -> bool:
    """Whether a type is DTensor, or one of it."""
    return any(base.__name__ == "DTensor" for base in kind.__mro__)


def list_given(given: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that this rank gives."""
    names = [name for name in given if name.startswith("input")] or [
        name for name in given if name.startswith("tensor")
    ]
    return [one for name in names for one in find_all(given[name])]


def list_made(given: Mapping[str, Any]) -> list[Tensor]:
    """The tensors into which this rank is given something, where they were made before."""
    names = [name for name in given if name.startswith("out")]
    if not names and "process_group" in given:
        names = [name for name in given if name.startswith(("input", "tensor"))]
    return [one for name in names for one in find_all(given[name])]


def find_all(value: Any) -> Iterable[Any]:
    """The tensors in a value, in lists of lists too."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from find_all(one)


def spell(name: str, number: int, all_of_them: Sequence[Any]) -> str:
    """The name of one of several tensors: as `name_results` has it."""
    return name if len(all_of_them) == 1 else f"{name}.{number}"


def describe(given: Mapping[str, Any], made: Sequence[Tensor], groups: Mapping[str, str]) -> Mapping[str, Setting]:
    """Who takes part, what is summed how, and the bytes: of all that this rank gives or gets, whichever is more."""
    settings: dict[str, Setting] = dict(name_group(given, groups))
    reduce = given.get("reduce_op")
    if isinstance(reduce, str):  # elsewhere torch keeps it to itself
        settings["reduce"] = reduce
    given_bytes = sum(map(count_bytes, list_given(given)))
    settings["bytes"] = max(given_bytes, sum(map(count_bytes, made)))
    return settings


def count_bytes(tensor: Tensor) -> int:
    tensor = unwrap(tensor) if is_divided(tensor) else tensor
    return tensor.numel() * tensor.element_size()


def name_group(given: Mapping[str, Any], groups: Mapping[str, str]) -> Mapping[str, Setting]:
    """The group by the name of its axis of the mesh, where it has one, and its ranks."""
    group: Any = given.get("process_group", given.get("group_name"))
    if isinstance(group, torch.ScriptObject):
        group = torch._C._distributed_c10d.ProcessGroup.unbox(group)
    elif isinstance(group, str):
        groups_by_name: Any = torch.distributed.distributed_c10d
        group = groups_by_name._resolve_process_group(group)
    ranks = torch.distributed.get_process_group_ranks(group)
    told = str(getattr(group, "group_desc", "") or "")
    spelt = spell_ranks(ranks)
    name = groups.get(group.group_name, "")
    if not name and told.startswith("mesh_") and not told.startswith("mesh_dim_"):
        name = told.removeprefix("mesh_")
    return {"group": name or f"ranks {spelt}", "group_size": len(ranks), "group_ranks": spelt}


def spell_ranks(ranks: Sequence[int]) -> str:
    """Ranks as people write them: "0-7", "0, 8, 16"."""
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks))
