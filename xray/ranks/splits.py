"""Splits that cannot be, found in a model's settings before anything runs: "8 ranks cannot share 2 key heads"."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from xray.errors import UsageError
from xray.ranks.mesh import Mesh

QUERIES = ("q_proj", "qkv_proj", "query_key_value", "q_b_proj")
KEYS = ("k_proj", "qkv_proj", "query_key_value")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def check_splits(model: nn.Module, mesh: Mesh, plan: Mapping[str, str] | None) -> None:
    """Make sure that the ranks of a mesh can share the model's heads, experts and layers.

    Raises:
        UsageError: they cannot; the message says which axis of the mesh does not fit what, and what would.
    """
    for axis, count, things in list_shared(model, mesh, plan):
        ranks = mesh.size(axis)
        if ranks > 1 and count % ranks:
            fitting = ", ".join(f"{axis}={n}" for n in range(1, count + 1) if count % n == 0)[:80]
            raise UsageError(
                f"{ranks} ranks cannot share {count} {things}. Choose {axis} so that it divides {count}: {fitting}."
            )
    stages, layers = mesh.size("pp"), count_layers(model)
    if stages > max(layers, 1):
        raise UsageError(f"{stages} stages of a pipeline cannot share {layers} layers. Choose pp from 1 to {layers}.")
    if mesh.size("ep") > 1 and not mesh.experts_alone:
        check_experts_among(mesh)


def check_experts_among(mesh: Mesh) -> None:
    experts, tensors, all_ranks = mesh.size("ep"), mesh.size("tp"), mesh.size("fsdp", "tp")
    if experts % tensors or all_ranks % experts:
        raise UsageError(
            f"ep={experts} does not lie on fsdp={mesh.size('fsdp')}, tp={tensors}: experts are divided among the ranks "
            f"of both. Choose ep as a multiple of tp that divides {all_ranks}."
        )
    if experts != tensors:
        raise UsageError(
            f"ep={experts} beside tp={tensors} sends words to the ranks whose experts they choose, and how many hangs "
            "on numbers, of which there are none here. Choose ep as large as tp, or ep alone."
        )


def list_shared(model: nn.Module, mesh: Mesh, plan: Mapping[str, str] | None) -> Iterator[tuple[str, int, str]]:
    """What the ranks of an axis share: the axis, how many there are, and what they are."""
    settings = read_settings(model)
    rules = {**(getattr(model, "tp_plan", None) or {}), **(plan or {})}
    divided = {name.rsplit(".", 1)[-1] for name, style in rules.items() if style == "colwise"}
    heads = getattr(settings, "num_attention_heads", None)
    key_heads = getattr(settings, "num_key_value_heads", None) or heads
    if isinstance(key_heads, int) and divided & set(KEYS):
        yield "tp", key_heads, "key heads" if key_heads != heads else "heads"
    if isinstance(heads, int) and divided & set(QUERIES):
        yield "tp", heads, "heads"
    experts = next(
        (getattr(settings, name) for name in EXPERTS if isinstance(getattr(settings, name, None), int)), None
    )
    if mesh.size("ep") > 1:
        if experts is None:
            raise UsageError(
                f"{type(model).__name__} has no experts to divide among {mesh.size('ep')} ranks. Leave ep out."
            )
        yield "ep", experts, "experts"


def read_settings(model: nn.Module) -> Any:
    """A model's settings, those of its text part where it has several; None where there are none."""
    config = getattr(model, "config", None)
    read = getattr(config, "get_text_config", None)
    return config if read is None else read()


def count_layers(model: nn.Module) -> int:
    """How many layers stand one behind the other."""
    count = getattr(read_settings(model), "num_hidden_layers", None)
    if isinstance(count, int):
        return count
    return max((len(one) for one in model.modules() if isinstance(one, nn.ModuleList)), default=0)
