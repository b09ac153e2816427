"""Attention: the worked example of the literature, fused equals step by step, masks that hide all."""

import itertools
from typing import Any

import pytest
import torch

from xray.config import ModelConfig
from xray.model.attention import MultiHeadAttention, explicit_attention
from xray.model.masks import CausalMask, PaddingMask, TargetMask
from xray.model.transformer import Transformer

SMALL: dict[str, Any] = {
    "src_vocab": 23,
    "tgt_vocab": 29,
    "d_model": 33,
    "heads": 3,
    "d_ff": 13,
    "encoder_layers": 2,
    "decoder_layers": 2,
}


def make_ids(batch, length, vocab, lengths):
    torch.manual_seed(5)
    ids = torch.randint(4, vocab, (batch, length))
    for row, used in enumerate(lengths):
        ids[row, used:] = 1
    return ids


def test_the_worked_example_gives_its_six_numbers():
    """Q = K = V = 1..6 with d_k = 1 under the causal mask, as worked out by hand in the background notes."""
    attention = MultiHeadAttention(ModelConfig(src_vocab=5, d_model=1, heads=1))
    for linear in (attention.query, attention.key, attention.value, attention.output):
        torch.nn.init.ones_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
    x = torch.arange(1.0, 7.0).view(1, 6, 1)
    mask = CausalMask()(torch.zeros(1, 6))

    with explicit_attention(attention):
        out = attention(x, x, x, mask)

    assert [round(value, 4) for value in out.flatten().tolist()] == [1.0, 1.8808, 2.9480, 3.9813, 4.9932, 5.9975]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("value", "norm", "cross", "scale"),
    list(itertools.product(("finite", "-inf"), ("after", "before"), ("padding", "none"), (True, False))),
)
def test_fused_equals_step_by_step(value, norm, cross, scale):
    torch.manual_seed(7)
    config = ModelConfig(**SMALL, mask_value=value, norm=norm, cross_mask=cross, scale_embeddings=scale)
    model = Transformer(config).eval()
    src, tgt = make_ids(2, 5, 23, (5, 3)), make_ids(2, 7, 29, (4, 7))

    fused = model(src, tgt)
    with explicit_attention(model):
        explicit = model(src, tgt)

    torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("value", ["finite", "-inf"])
@pytest.mark.parametrize("explicit", [True, False])
def test_a_row_that_sees_nothing_gives_no_nan(value, explicit):
    model = Transformer(ModelConfig(**SMALL, mask_value=value)).eval()
    src, tgt = make_ids(2, 5, 23, (0, 3)), make_ids(2, 7, 29, (0, 7))
    for attention in model.modules():
        if isinstance(attention, MultiHeadAttention):
            attention.explicit = explicit

    out = model(src, tgt)
    out.sum().backward()

    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("value", ["finite", "-inf"])
def test_fused_equals_step_by_step_for_a_row_that_sees_nothing(value):
    torch.manual_seed(7)
    model = Transformer(ModelConfig(**SMALL, mask_value=value)).eval()
    src, tgt = make_ids(2, 5, 23, (0, 3)), make_ids(2, 7, 29, (0, 7))

    fused = model(src, tgt)
    with explicit_attention(model):
        explicit = model(src, tgt)

    torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)


def test_explicit_attention_restores_what_it_found():
    model = Transformer(ModelConfig(**SMALL))
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    attentions[1].explicit = True

    with pytest.raises(KeyboardInterrupt), explicit_attention(model):
        raise KeyboardInterrupt

    assert [attention.explicit for attention in attentions] == [False, True] + [False] * (len(attentions) - 2)


def test_hidden_padding_cannot_change_an_answer():
    torch.manual_seed(11)
    model = Transformer(ModelConfig(**SMALL)).eval()
    tgt = make_ids(1, 7, 29, (7,))
    short, padded = make_ids(1, 3, 23, (3,)), make_ids(1, 5, 23, (3,))
    padded[:, :3] = short

    torch.testing.assert_close(model(short, tgt), model(padded, tgt), atol=1e-5, rtol=1e-5)


def test_a_later_word_cannot_change_an_earlier_guess():
    torch.manual_seed(11)
    model = Transformer(ModelConfig(**SMALL)).eval()
    src, tgt = make_ids(1, 5, 23, (5,)), make_ids(1, 7, 29, (7,))
    other = tgt.clone()
    other[:, 4:] = 4 + (other[:, 4:] - 3) % 25

    before, after = model(src, tgt), model(src, other)

    torch.testing.assert_close(before[:, :4], after[:, :4], atol=1e-5, rtol=1e-5)
    assert (before[:, 4:] - after[:, 4:]).abs().max() > 1e-3


def test_the_padding_mask_hides_the_padding():
    mask = PaddingMask()(torch.tensor([[5, 6, 1], [7, 1, 1]]))

    assert mask.tolist() == [[[[True, True, False]]], [[[True, False, False]]]]


def test_the_target_mask_hides_padding_and_future():
    mask = TargetMask()(torch.tensor([[2, 6, 1]]))

    assert mask.tolist() == [[[[True, False, False], [True, True, False], [True, True, False]]]]
