"""What a training computes with."""

import pytest
import torch

from xray.learn.steps.optimiser import computing_type

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
