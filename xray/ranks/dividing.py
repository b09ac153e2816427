"""A model divided among the ranks of a mesh: by the library's own plan, by a given one, and by FSDP2."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from xray.errors import TraceError, UsageError
from xray.ranks.mesh import Mesh
from xray.text import reason_of, show_controls

LOWEST_TORCH = (2, 8)
"""From here on the transformers library divides models, and FSDP2 runs without a GPU."""
PLAN_EXAMPLE = '{"layers.*.up": "colwise", "layers.*.down": "rowwise"}'


def read_plan(path: Path) -> dict[str, str]:
    """A plan from a file: modules by their paths, with `*` for numbers, and the style of each.

    Raises:
        UsageError: the file cannot be read, or is no such plan.
    """
    shown = show_controls(str(path))
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the plan {shown}: {reason_of(error)}. Write it as {PLAN_EXAMPLE}.") from error
    if not isinstance(plan, dict) or not all(isinstance(one, str) for one in plan.values()) or not plan:
        raise UsageError(f"{shown} is no plan. Write it as {PLAN_EXAMPLE}.")
    return plan


def divide(model: nn.Module, mesh: Mesh, plan: Mapping[str, str] | None, *, trains: bool = False) -> nn.Module:
    """The same model, divided; for a process that is one of the mesh's ranks.

    Where it `trains`, ranks of `dp` share their gradients as DistributedDataParallel does, or FSDP2 where that divides.

    Raises:
        UsageError: there is no plan for it, or the plan names what is not there.
        TraceError: the library cannot divide it so.
    """
    library = hasattr(model, "maybe_distribute_model")
    if mesh.size("tp") > 1 and not (plan or (library and getattr(model, "tp_plan", None))):
        raise UsageError(
            f"{type(model).__name__} brings no plan for tensor parallel. Give one with --tp-plan plan.json, such as "
            f"{PLAN_EXAMPLE}."
        )
    if mesh.size("ep") > 1 and not (library and getattr(model, "ep_plan", None)):
        raise UsageError(f"{type(model).__name__} brings no plan for expert parallel. Leave ep out.")
    replicates = trains and mesh.size("dp") > 1 and mesh.size("fsdp") == 1
    if mesh.size("fsdp", "tp", "ep") == 1:  # all ranks have the same
        return replicate(model, lay_out({"dp": mesh.count, "tp": 1})["dp"]) if replicates else model
    if (library or mesh.size("fsdp") > 1) and tuple(map(int, torch.__version__.split(".")[:2])) < LOWEST_TORCH:
        raise TraceError(
            f"torch {torch.__version__} is too old to divide {type(model).__name__} by {mesh}. "
            "Install torch 2.8 or newer."
        )
    try:
        divided = divide_by_library(model, mesh, plan) if library else divide_by_torch(model, mesh, plan or {})
        if not replicates:
            return divided
        others = ("ep",) if mesh.experts_alone else ("fsdp", "tp")
        return replicate(divided, lay_out({"dp": mesh.size("dp"), "rest": mesh.size(*others)})["dp"])
    except UsageError:
        raise
    except Exception as error:  # whatever a library raises of what it cannot divide
        reason = show_controls(" ".join(str(error).split())[:300]).rstrip(".")
        raise TraceError(
            f"{type(model).__name__} cannot be divided by {mesh}: {reason}. Choose another mesh or plan."
        ) from error


def divide_by_library(model: Any, mesh: Mesh, plan: Mapping[str, str] | None) -> nn.Module:
    """A model of the transformers library, as the library divides it when it loads one."""
    from transformers.distributed.configuration_utils import DistributedConfig
    from transformers.distributed.expert_parallel import apply_expert_parallelism
    from transformers.distributed.utils import TransformersDeviceMesh

    if mesh.experts_alone:
        laid = lay_out({"dp": mesh.size("dp"), "ep": mesh.size("ep")})["ep"]
        rules = model._expand_parallel_plan(model.ep_plan)
        among: nn.Module = apply_expert_parallelism(model, laid, laid, rules, ep_implementation="all_reduce")
        return among
    config = DistributedConfig(
        tp_size=mesh.size("tp"),
        tp_plan=dict(plan) if plan else None,
        fsdp_size=mesh.size("fsdp"),
        dp_replicate_size=mesh.size("dp") if mesh.size("fsdp") > 1 else 1,
        ep_size=mesh.size("ep"),
    )
    replicas = {"pp": 1, "dp_replicate": mesh.size("dp")}
    dense = lay_out({**replicas, "fsdp": mesh.size("fsdp"), "tp": mesh.size("tp")})
    experts = lay_out({**replicas, "efsdp": config.efsdp_size, "ep": mesh.size("ep")})
    divided: nn.Module = type(model).maybe_distribute_model(model, config, TransformersDeviceMesh(dense, experts))
    return divided


def lay_out(sizes: Mapping[str, int]) -> Any:
    """The ranks along these axes, as torch holds them."""
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def divide_by_torch(model: nn.Module, mesh: Mesh, plan: Mapping[str, str]) -> nn.Module:
    """Any model, by torch's own styles, and every layer of a stack by FSDP2."""
    laid = lay_out({"dp": mesh.size("dp"), "fsdp": mesh.size("fsdp"), "tp": mesh.size("tp")})
    if mesh.size("tp") > 1:
        divide_by_plan(model, laid["tp"], plan)
    if mesh.size("fsdp") > 1:
        from torch.distributed.fsdp import fully_shard

        among = laid["dp", "fsdp"] if mesh.size("dp") > 1 else laid["fsdp"]
        for stack in [one for one in model.modules() if isinstance(one, nn.ModuleList)]:
            for layer in stack:
                fully_shard(layer, mesh=among)
        fully_shard(model, mesh=among)
    return model


def replicate(model: nn.Module, laid: Any) -> nn.Module:
    """The same model, whose ranks add up their gradients: torch's DistributedDataParallel, which leaves it its paths.

    What is added up is told by a hook of its own, as the fake group cannot be asked for what DDP's default one asks.
    """
    from torch.distributed._composable.replicate import replicate as share_gradients

    def add_up(
        group: Any,
        bucket: torch.distributed.GradBucket,  # type: ignore[name-defined]  # torch brings it in as it runs
    ) -> torch.futures.Future[Tensor]:
        shared = bucket.buffer().div_(group.size())
        torch.distributed.all_reduce(shared, group=group)
        done = torch.futures.Future[Tensor]()
        done.set_result(shared)
        return done

    divided: Any = share_gradients(model, device_mesh=laid, init_sync=False)
    divided.register_comm_hook(laid.get_group(), add_up)
    shared: nn.Module = divided
    return shared


def divide_by_plan(model: nn.Module, laid: Any, plan: Mapping[str, str]) -> None:
    """The modules that a plan names, each in its style.

    Raises:
        UsageError: a style is unknown, or no module has a path like that.
    """
    from torch.distributed.tensor.parallel import parallelize_module

    styles, found = list_styles(), dict[str, Any]()
    for pattern, style in plan.items():
        if style not in styles:
            raise UsageError(f"the plan has no style {show_controls(style)!r}. Choose among {', '.join(styles)}.")
        spelt = re.compile(re.escape(pattern).replace(r"\*", r"\d+"))
        named = [path for path, _ in model.named_modules() if spelt.fullmatch(path)]
        if not named:
            raise UsageError(
                f"the plan names {show_controls(pattern)}, and {type(model).__name__} has no module like that. "
                "Write its path, with * for the numbers of layers."
            )
        found |= dict.fromkeys(named, styles[style])
    parallelize_module(model, laid, {path: make() for path, make in found.items()})


def list_styles() -> Mapping[str, Callable[[], Any]]:
    """The styles of a plan by the transformers library's names, and those that divide the stream by words."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as styles

    return {
        "colwise": styles.ColwiseParallel,
        "rowwise": styles.RowwiseParallel,
        "colwise_gather_output": lambda: styles.ColwiseParallel(output_layouts=Replicate()),
        "rowwise_split_input": lambda: styles.RowwiseParallel(input_layouts=Replicate()),
        "embedding_rowwise": lambda: styles.RowwiseParallel(input_layouts=Replicate()),
        "sequence_parallel": styles.SequenceParallel,
        "gather_words": lambda: styles.PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "colwise_from_words": lambda: styles.ColwiseParallel(input_layouts=Shard(1)),
        "colwise_from_words_gather_output": lambda: styles.ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Replicate()
        ),
        "rowwise_to_words": lambda: styles.RowwiseParallel(output_layouts=Shard(1)),
        "embedding_to_words": lambda: styles.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    }
