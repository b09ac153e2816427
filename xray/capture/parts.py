"""Tensors that several ranks hold: the whole, this rank's part of it, and how the mesh divides it."""

import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

MOST_RANKS = 64
"""On how many ranks at most every one's part of a weight is looked up."""


class Part(NamedTuple):
    """This rank's part of a tensor, and torch's words for how the whole is divided, where they are known."""

    local: tuple[int, ...]
    placement: str | None


def look_at_part(tensor: Tensor) -> Part | None:
    """This rank's part of a DTensor; None for any other tensor."""
    if not is_divided(tensor):
        return None
    whole: Any = tensor
    return Part(tuple(unwrap(tensor).shape), spell_placements(whole.placements))


def describe_weight(name: str, weight: Tensor) -> Mapping[str, str]:
    """How ranks hold a weight: whole shape, placement, this rank's part and where it begins; all parts if uneven."""
    part = look_at_part(weight)
    if part is None or part.placement is None:
        return {}
    whole: Any = weight
    told = {"shape": spell_sizes(weight.shape), "placement": part.placement, "local": spell_sizes(part.local)}
    mesh = whole.device_mesh
    held = list_parts(weight) if mesh.size() <= MOST_RANKS else {}
    mine = held.get(torch.distributed.get_rank())
    if mine is not None and mine[0] == part.local:  # torch's rule tells this rank's part, and so the others'
        told["begin"] = spell_sizes(mine[1])
        sizes = {rank: spell_sizes(local) for rank, (local, _) in held.items()}
        if len(set(sizes.values())) > 1:
            told["parts"] = ", ".join(f"{rank}: {size}" for rank, size in sizes.items())
    return {f"{name}_{key}": value for key, value in told.items()}


def list_parts(weight: Tensor) -> Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each rank of a DTensor's mesh its part and where that begins, by torch's own rule; none if it is not there.

    The rule is private to torch (tried with 2.13); nothing else here is.
    """
    try:
        from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset as find_part
    except ImportError:
        return {}
    whole: Any = weight
    ranks = whole.device_mesh.mesh
    found = {}
    for place in itertools.product(*map(range, ranks.shape)):
        shape, begin = find_part(whole.shape, tuple(ranks.shape), list(place), whole.placements)
        found[int(ranks[place])] = tuple(map(int, shape)), tuple(map(int, begin))
    return found


def spell_sizes(sizes: Iterable[int]) -> str:
    """A shape as settings have it: "32x16"."""
    return "x".join(map(str, sizes))


def spell_placements(placements: Any) -> str:
    """How a mesh divides a tensor, in torch's notation, a word for each axis of the mesh: "[S(0), R]"."""
    return f"[{', '.join(map(spell_placement, placements))}]"


def spell_placement(placement: Any) -> str:
    if placement.is_replicate():
        return "R"
    if placement.is_partial():
        return f"P({placement.reduce_op})"
    return f"S({placement.dim})" if placement.is_shard() else str(placement)


def unwrap(tensor: Tensor) -> Tensor:
    """The plain tensor in which this rank's numbers lie."""
    if is_divided(tensor):
        tensor = tensor._local_tensor  # type: ignore[attr-defined]  # of a DTensor
    inner = getattr(tensor, "elem", None) if type(tensor).__name__ == "AsyncCollectiveTensor" else None
    return tensor if inner is None else inner


def is_divided(tensor: object) -> bool:
    """Whether a tensor is a DTensor; torch's own module of them is not loaded for the question."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def name_groups(model: nn.Module) -> Mapping[str, str]:
    """What the axes of the meshes are called on which a model's parameters lie, by torch's names of the groups.

    Two axes may have the same ranks, and share a group: "ep+tp".
    """
    names: dict[str, set[str]] = {}
    divided: list[Any] = [one for one in model.parameters() if is_divided(one)]
    for mesh in {one.device_mesh for one in divided}:
        for place, name in enumerate(mesh.mesh_dim_names or ()):
            names.setdefault(mesh.get_group(place).group_name, set()).add(name)
    return {group: "+".join(sorted(several)) for group, several in names.items()}


def watch_storage(tensor: Tensor) -> StorageWeakRef:
    """A reference to the tensor's storage that does not keep it alive."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]  # torch leaves it so


def is_distributed() -> bool:
    """Whether this process is one of several ranks now."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()
