"""Weights that a fused attention never stores, worked out where somebody asks to see them."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from xray.capture.recorder import Recorder
from xray.capture.values import preview_attention

BATCH, HEADS, QUERIES, KEYS, D_K = 2, 6, 5, 7, 11
MASKS = {
    "no mask": {},
    "causal": {"is_causal": True},
    "a mask of yes and no": {"attn_mask": torch.arange(QUERIES * KEYS).view(QUERIES, KEYS) % 3 > 0},
    "a mask that is added": {"attn_mask": torch.linspace(-3, 0, QUERIES * KEYS).view(QUERIES, KEYS)},
    "a scale": {"scale": 0.7},
    "grouped queries": {"enable_gqa": True},
}


class Fused(nn.Module):
    """Nothing but the kernel."""

    def __init__(self, options):
        super().__init__()
        self.options = options

    def forward(self, query, key, value):
        return scaled_dot_product_attention(query, key, value, **self.options)


def make_operands(options):
    kept = torch.Generator().manual_seed(0)
    heads = 2 if "enable_gqa" in options else HEADS
    keys = [torch.rand(BATCH, heads, KEYS, D_K, generator=kept) for _ in range(2)]
    return torch.rand(BATCH, HEADS, QUERIES, D_K, generator=kept), *keys


def record_weights(options, **asked):
    query, key, value = make_operands(options)
    recorder = Recorder(Fused(options), operations=True, **asked)
    with recorder:
        out = recorder._root(query, key, value)
    step = next(step for step in recorder.trace.steps if step.op == "softmax")
    return step.outputs[0].preview, value, out


@pytest.mark.parametrize("options", MASKS.values(), ids=MASKS)
def test_the_weights_of_a_kernel_are_those_that_give_its_result(options):
    preview, value, out = record_weights(options, preview=preview_attention, weighs=True)

    weights = torch.tensor(preview.values).view(preview.shape)
    values = value[:1].repeat_interleave(HEADS // value.shape[1], dim=1)
    assert preview.shape == (1, HEADS, QUERIES, KEYS)
    assert torch.allclose(weights @ values, out[:1], atol=1e-4)


def test_unasked_nothing_is_worked_out():
    preview, _, _ = record_weights({}, preview=preview_attention)

    assert preview is None
