"""The weights of a model divided among processes by FSDP: each keeps a part of every matrix and of its gradient.

A layer is whole only while it computes. Everything here is done by all processes together, in the same order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, distributed, nn

from xray.model.fast.packed_weights import PackedWeights, group_names
from xray.model.transformer import Transformer

Given = ParamSpec("Given")
Made = TypeVar("Made")


class Unit(nn.Module):
    """Leaves that are gathered from all processes while a function computes with them."""

    def forward(self, compute: Callable[Given, Made], *args: Given.args, **named: Given.kwargs) -> Made:
        return compute(*args, **named)


class ShardedWeights:
    """The same leaves as those of `PackedWeights`, in as many units as there are layers, and one for all the rest.

    `rank` is that of this process among `count`. The readable model stays on the CPU of the first process, with the
    weights of the last `show`; that of the others has no storage.
    """

    def __init__(self, model: Transformer, device: torch.device, rank: int, count: int) -> None:
        self.model = model
        self.device = device
        self.rank = rank
        self.count = count
        parameters = dict(model.named_parameters())
        self.shapes = {name: parameter.shape for name, parameter in parameters.items()}
        self.groups = dict(group_names(model, parameters))
        whole = {leaf: torch.cat([parameters[name].detach() for name in names]) for leaf, names in self.groups.items()}
        self.units = {path: Unit() for path in ("", *(path_of(leaf) for leaf in self.groups))}
        for leaf in self.groups:
            self.units[path_of(leaf)].register_parameter(attribute_of(leaf), nn.Parameter(whole.pop(leaf)))
        if rank:
            forget_storage(model)
        self.divide()
        self.leaves = Leaves(self.units, self.groups)
        self.divided: list[Any] = list(self.leaves.values())
        with torch.no_grad():
            self.parts = [nn.Parameter(one.to_local()) for one in self.divided]

    def divide(self) -> None:
        """Give this process its part of each unit, one after the other, so that the device never holds all of them."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.count,))
        root = self.units[""]
        for path, unit in self.units.items():
            if path:
                fully_shard(unit, mesh=mesh)
                root.add_module(attribute_of(path), unit)
        fully_shard(root, mesh=mesh, reshard_after_forward=True)

    def forget_gradients(self) -> None:
        """Make the leaves ready for another step."""
        for leaf in self.divided:
            leaf.grad = None

    def go_backward(self, loss: Tensor) -> None:
        """Add the slopes of all losses to the gradients: their sum over the processes, where FSDP takes the mean."""
        torch.autograd.backward(loss, loss.new_tensor(self.count))

    def gather_gradients(self) -> None:
        """Lay the gradients, which are added up over all processes already, beside the parts."""
        for part, leaf in zip(self.parts, self.divided, strict=True):
            part.grad = torch.zeros_like(part) if leaf.grad is None else leaf.grad.to_local()

    def shorten_gradients(self, longest: float) -> None:
        """Make all gradients together at most so long."""
        gradients = [part.grad for part in self.parts if part.grad is not None]
        squares = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
        distributed.all_reduce(squares)
        scale = (longest / (squares.sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)

    def inside(self, path: str, compute: Callable[Given, Made], *args: Given.args, **named: Given.kwargs) -> Made:
        """What a function computes that needs the leaves of one layer, or, with no path, those of no layer."""
        return self.units[path](compute, *args, **named)  # type: ignore[no-any-return]

    def list_whole(self, tensors: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
        """What belongs to each parameter, by its name, of tensors like the parts; in the first process only."""
        for names, tensor in zip(self.groups.values(), tensors, strict=True):
            rows = [self.shapes[name][0] for name in names]
            own = tensor.new_zeros(ceil(sum(rows) / self.count), *tensor.shape[1:])
            own[: len(tensor)] = tensor.detach()
            parts = [torch.empty_like(own) for _ in range(self.count)] if self.rank == 0 else None
            distributed.gather(own, parts)
            if parts is not None:
                yield from zip(names, torch.cat(parts)[: sum(rows)].cpu().split_with_sizes(rows), strict=True)

    def fill(self, tensors: Sequence[Tensor], whole: Mapping[str, Tensor]) -> None:
        """Write into tensors like the parts what `list_whole` gave."""
        for names, tensor in zip(self.groups.values(), tensors, strict=True):
            rows = torch.cat([whole[name] for name in names])
            start = min(len(rows), self.rank * ceil(len(rows) / self.count))
            tensor.copy_(rows[start : start + len(tensor)])

    def show(self) -> None:
        """Let the readable model have the weights of this moment."""
        parameters = dict(self.model.named_parameters())
        for name, whole in self.list_whole(self.parts):
            parameters[name].data.copy_(whole)


class Leaves(Mapping[str, Tensor]):
    """Each leaf by its name: whole while its unit computes, this process's part of it otherwise."""

    def __init__(self, units: Mapping[str, Unit], names: Mapping[str, Any]) -> None:
        self.units = units
        self.names = names

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.names:
            raise KeyError(name)
        return getattr(self.units[path_of(name)], attribute_of(name))  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


Weights = PackedWeights | ShardedWeights


def path_of(leaf: str) -> str:
    """The layer that a leaf belongs to, as "encoder.layers.0"; empty if to none."""
    words = leaf.split(".")
    return ".".join(words[:3]) if words[1] == "layers" else ""


def attribute_of(path: str) -> str:
    """A name without dots, as attributes have."""
    return path.replace(".", "_")


def forget_storage(model: nn.Module) -> None:
    """Leave a model its shapes alone; what shares a weight goes on sharing it."""
    left: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            left.setdefault(parameter, nn.Parameter(torch.empty_like(parameter, device="meta")))
            setattr(module, name, left[parameter])
