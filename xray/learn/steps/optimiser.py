"""The optimiser of a training, and its state by name."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from xray.config import Precision, TrainConfig
from xray.model.fast.packed_weights import PackedWeights

AVERAGES = ("exp_avg", "exp_avg_sq")


def make_optimiser(block: nn.Parameter, config: TrainConfig) -> torch.optim.Adam:
    """Adam or AdamW, all weights in one kernel."""
    options: dict[str, Any] = {
        "lr": config.learning_rate,
        "betas": (0.9, config.beta2),
        "eps": 1e-9,
        "fused": True,
    }
    if config.optimiser == "adamw":
        return torch.optim.AdamW([block], weight_decay=config.weight_decay, **options)
    return torch.optim.Adam([block], **options)


def state_tensors(optimiser: torch.optim.Optimizer, weights: PackedWeights) -> dict[str, Tensor]:
    """What the optimiser keeps: the number of its steps, and two averages of every weight, under its name."""
    state = optimiser.state.get(weights.block)
    if not state:
        return {}
    tensors = {f"adam.{key}.{name}": part for key in AVERAGES for name, part in weights.cut(state[key])}
    return {"adam.step": state["step"], **tensors}


def restore_state(optimiser: torch.optim.Optimizer, weights: PackedWeights, tensors: Mapping[str, Tensor]) -> None:
    """Give the optimiser what `state_tensors` took."""
    if "adam.step" not in tensors:
        return
    if tensors["adam.step"].shape or not tensors["adam.step"].is_floating_point():
        raise ValueError("adam.step is no single number")
    state = {key: torch.zeros_like(weights.block.detach()) for key in AVERAGES}
    for key, block in state.items():
        for name, part in weights.cut(block):
            part.copy_(tensors[f"adam.{key}.{name}"])
    optimiser.state[weights.block] = {"step": tensors["adam.step"].to(weights.block.device, copy=True), **state}


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
