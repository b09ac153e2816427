"""The optimiser of a training, and its state by name."""

from collections.abc import Mapping
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor

from xray.config import Precision, TrainConfig
from xray.model.fast.sharded_weights import Weights

AVERAGES = ("exp_avg", "exp_avg_sq")


def make_optimiser(weights: Weights, config: TrainConfig) -> torch.optim.Adam:
    """Adam or AdamW, all weights in one kernel."""
    options: dict[str, Any] = {
        "lr": config.learning_rate,
        "betas": (0.9, config.beta2),
        "eps": 1e-9,
        "fused": True,
    }
    if config.optimiser == "adamw":
        return keep_compiler_out(torch.optim.AdamW)(weights.parts, weight_decay=config.weight_decay, **options)
    return keep_compiler_out(torch.optim.Adam)(weights.parts, **options)


def keep_compiler_out(kind: type[torch.optim.Adam]) -> type[torch.optim.Adam]:
    """The same optimiser, which does not load torch's compiler only to tell it that it has nothing to do here.

    To load it takes longer than all else before the first step.
    """
    plain = {"add_param_group": unwrap(kind.add_param_group), "step": torch.no_grad()(unwrap(kind.step))}
    return type(kind.__name__, (kind,), plain)


def state_tensors(optimiser: torch.optim.Optimizer, weights: Weights) -> dict[str, Tensor]:
    """What the optimiser keeps: the number of its steps, and two averages of every weight, under its name."""
    states = [optimiser.state.get(part) for part in weights.parts]
    if not states[0]:
        return {}
    tensors = {"adam.step": states[0]["step"]}
    for key in AVERAGES:
        kept = [state[key] for state in states if state]
        tensors |= {f"adam.{key}.{name}": whole for name, whole in weights.list_whole(kept)}
    return tensors


def restore_state(optimiser: torch.optim.Optimizer, weights: Weights, tensors: Mapping[str, Tensor]) -> None:
    """Give the optimiser what `state_tensors` took."""
    if "adam.step" not in tensors:
        return
    step = tensors["adam.step"]
    if step.shape or not step.is_floating_point():
        raise ValueError("adam.step is no single number")
    kept = {key: [torch.zeros_like(part.detach()) for part in weights.parts] for key in AVERAGES}
    for key, averages in kept.items():
        weights.fill(averages, {name: tensors[f"adam.{key}.{name}"] for name in weights.shapes})
    for number, part in enumerate(weights.parts):
        averages_of_part = {key: averages[number] for key, averages in kept.items()}
        optimiser.state[part] = {"step": step.to(weights.device, copy=True), **averages_of_part}


def computing_type(precision: Precision, device: torch.device) -> torch.dtype:
    """The number type that the model computes with; its weights stay float32."""
    if precision == "bfloat16" or (precision == "auto" and is_fast_in_bfloat16(device)):
        return torch.bfloat16
    return torch.float32


def is_fast_in_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies matrices of bfloat16 faster than those of float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):  # an older torch
        return False
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
