"""What a training computes with."""

import sys

import pytest
import torch

from xray.config import ModelConfig, TrainConfig
from xray.learn.steps.optimiser import computing_type, make_optimiser
from xray.model.fast.packed_weights import PackedWeights
from xray.model.transformer import Transformer

CPU = torch.device("cpu")


@pytest.mark.parametrize("able", [{"avx512_bf16": True}, {"avx512_bf16": False, "amx_bf16": True}])
def test_auto_computes_in_bfloat16_on_a_processor_that_multiplies_it(monkeypatch, able):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able, raising=False)
    assert computing_type("auto", CPU) is torch.bfloat16


def test_auto_computes_in_float32_on_a_processor_that_does_not(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False}, raising=False)
    assert computing_type("auto", CPU) is torch.float32


def test_auto_computes_in_float32_where_torch_cannot_say(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert computing_type("auto", CPU) is torch.float32


def test_float32_is_computed_in_float32_on_every_processor(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    assert computing_type("float32", CPU) is torch.float32


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_a_step_is_taken_without_torchs_compiler(monkeypatch, name):
    weights = PackedWeights(Transformer(ModelConfig(src_vocab=7, tgt_vocab=7, d_model=6, heads=2, d_ff=5)))
    before = [part.detach().clone() for part in weights.parts]
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)

    optimiser = make_optimiser(weights, TrainConfig(optimiser=name, weight_decay=0.0))
    for part in weights.parts:
        part.grad = torch.ones_like(part)
    optimiser.step()

    assert all(bool((one < other).all()) for one, other in zip(weights.parts, before, strict=True))
