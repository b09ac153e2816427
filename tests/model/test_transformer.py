"""The whole model: settings where the texts differ, weight sharing, docstrings that hold."""

import inspect
import math
from typing import Any

import pytest
import torch
from torch import nn

from xray.config import ModelConfig
from xray.model.transformer import Transformer

SIZES: dict[str, Any] = {
    "src_vocab": 29,
    "tgt_vocab": 29,
    "d_model": 33,
    "heads": 3,
    "d_ff": 13,
    "encoder_layers": 2,
    "decoder_layers": 1,
}


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_logits_have_a_score_for_every_word_at_every_place():
    model = Transformer(ModelConfig(**SIZES))

    assert model(torch.ones(2, 5, dtype=torch.long), torch.ones(2, 7, dtype=torch.long)).shape == (2, 7, 29)


def test_layer_norm_uses_the_biased_variance():
    model = Transformer(ModelConfig(**SIZES))
    x = torch.arange(33.0).view(1, 1, 33)

    out = model.encoder.layers[0].self_attention_norm(x)

    assert out[0, 0, 0].item() == pytest.approx((0 - 16) / math.sqrt(x.var(unbiased=False).item() + 1e-5), rel=1e-5)


@pytest.mark.parametrize(("sharing", "saved"), [("none", 0), ("decoder", 29 * 33), ("all", 2 * 29 * 33)])
def test_sharing_saves_whole_tables(sharing, saved):
    assert count(Transformer(ModelConfig(**SIZES))) - count(Transformer(ModelConfig(**SIZES, sharing=sharing))) == saved


def test_norm_before_adds_a_last_norm_to_each_side():
    before = Transformer(ModelConfig(**SIZES, norm="before"))

    assert isinstance(before.encoder.norm, nn.LayerNorm)
    assert isinstance(before.decoder.norm, nn.LayerNorm)
    assert Transformer(ModelConfig(**SIZES)).encoder.norm is None


def test_embeddings_start_with_variance_one_after_scaling():
    torch.manual_seed(3)
    config = ModelConfig(**(SIZES | {"src_vocab": 997}))
    embedding = Transformer(config).encoder.embedding

    scaled = embedding.scale(embedding.words(torch.arange(4, 997)))

    assert scaled.var().item() == pytest.approx(1.0, abs=0.05)


def test_the_embedding_scale_can_be_left_out():
    assert Transformer(ModelConfig(**SIZES, scale_embeddings=False)).encoder.embedding.scale is None


def test_positions_follow_the_paper():
    table = Transformer(ModelConfig(**(SIZES | {"d_model": 32, "heads": 4}))).encoder.embedding.positions.table

    assert table[0, 7, 10].item() == pytest.approx(math.sin(7 / 10_000 ** (10 / 32)), abs=1e-5)
    assert table[0, 7, 11].item() == pytest.approx(math.cos(7 / 10_000 ** (10 / 32)), abs=1e-5)


def test_every_module_of_the_model_says_its_shapes():
    own = {type(module) for module in Transformer(ModelConfig(**SIZES)).modules()}
    silent = [
        kind.__name__
        for kind in own
        if kind.__module__.startswith("xray.") and "Shapes:" not in (inspect.getdoc(kind) or "")
    ]

    assert silent == []
