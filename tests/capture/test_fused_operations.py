"""Operations that compute several steps in one kernel are opened: fused attention, stock layers, their masks."""

import pytest
import torch
from capture.operation_flow import Model, flow, record_and_compare
from torch import nn
from torch.nn import functional

from xray.capture.recorder import trace


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_fused_attention_is_opened(key_heads):
    model = Model(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=key_heads != 4)
    )
    recorded = record_and_compare(
        model, torch.randn(2, 4, 5, 8), torch.randn(2, key_heads, 5, 8), torch.randn(2, key_heads, 5, 8)
    )
    steps = {step.path.rsplit(".", 1)[-1]: step for step in recorded.steps}

    assert steps["scores"].outputs[0].shape == (2, 4, 5, 5)
    assert steps["scores"].settings["derived"] is True
    assert steps["mask"].inputs[1].mask.kind == "causal"
    assert steps["mask"].inputs[1].mask.cells[0][:2] == (".ffff", "..fff")
    assert ("repeat_key" in steps) == (key_heads != 4)
    assert steps["weighted_sum"].outputs[0].shape == (2, 4, 5, 8)


def test_what_follows_fused_attention_comes_from_its_last_stage():
    recorded = trace(Model(lambda q: functional.scaled_dot_product_attention(q, q, q) + 1), torch.randn(1, 2, 3, 4))

    assert flow(recorded)[-1] == ("add", ["Model.scaled_dot_product_attention.weighted_sum#0"])


def test_the_mask_given_to_fused_attention_is_read():
    mask = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    model = Model(lambda q, mask: functional.scaled_dot_product_attention(q, q, q, attn_mask=mask))
    recorded = record_and_compare(model, torch.randn(1, 2, 3, 4), mask)
    facts = next(s for s in recorded.steps if s.path.endswith(".mask")).inputs[1].mask

    assert (facts.kind, facts.cells) == ("padding", (("..p",),))


def test_an_additive_mask_says_so():
    mask = torch.zeros(3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), float("-inf"))
    model = Model(lambda q, attn_mask: functional.scaled_dot_product_attention(q, q, q, attn_mask=attn_mask))
    facts = (
        next(s for s in trace(model, torch.randn(1, 2, 3, 4), mask).steps if s.path.endswith(".mask")).inputs[1].mask
    )

    assert (facts.kind, facts.polarity, facts.cells[0]) == ("causal", "additive", (".ff", "..f", "..."))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_stock_transformer_keeps_its_fast_path_and_is_seen_through():
    torch.manual_seed(5)
    model = nn.Transformer(16, 2, 2, 1, 32, batch_first=True).eval()
    padding = torch.tensor([[False, False, True, True, True], [False] * 5])
    with torch.no_grad():
        recorded = record_and_compare(
            model,
            torch.randn(2, 5, 16),
            torch.randn(2, 4, 16),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
    ops = [step.op for step in recorded.steps]
    masks = {r.name: r.mask for step in recorded.steps for r in step.inputs if r.mask is not None}

    assert ops.count("_transformer_encoder_layer_fwd") == 2
    assert masks["src_key_padding_mask"].polarity == "true_is_hidden"
    assert masks["src_key_padding_mask"].hidden_share == pytest.approx(0.3)
    assert masks["src_key_padding_mask"].cells == (("..ppp", "....."),)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("name", ["mask", "src_key_padding_mask"])
def test_a_look_at_a_mask_is_no_step_of_the_fast_path(name, nested):
    layer = nn.TransformerEncoderLayer(12, 2, 20, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    masks = {
        "mask": torch.ones(5, 5).triu(1).bool(),
        "src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
    }
    with torch.no_grad():
        recorded = trace(model, torch.rand(2, 5, 12), **{name: masks[name]})

    assert [step.op for step in recorded.steps].count("_transformer_encoder_layer_fwd") == 2
    assert not [step.id for step in recorded.steps if step.location.startswith("xray")]


@pytest.mark.parametrize("training", [True, False])
def test_multihead_attention_shows_its_insides(training):
    model = nn.MultiheadAttention(16, 2, batch_first=True).train(training)
    x = torch.randn(2, 5, 16)
    recorded = record_and_compare(model, x, x, x)

    assert any(step.op == "softmax" and step.outputs[0].shape[-2:] == (5, 5) for step in recorded.steps)
