"""With a key-value cache the decoder says the same, computing one row a turn."""

from typing import Any

import pytest
import torch

from xray.config import ModelConfig
from xray.model.attention import explicit_attention
from xray.model.transformer import Transformer

SIZES: dict[str, Any] = {
    "src_vocab": 23,
    "tgt_vocab": 29,
    "d_model": 33,
    "heads": 3,
    "d_ff": 13,
    "encoder_layers": 1,
    "decoder_layers": 2,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("norm", ["after", "before"])
@pytest.mark.parametrize("cross_mask", ["padding", "none"])
@pytest.mark.parametrize("mask_value", ["finite", "-inf"])
def test_every_turn_gives_the_logits_of_recomputing(explicit, norm, cross_mask, mask_value):
    torch.manual_seed(17)
    model = Transformer(ModelConfig(**SIZES, norm=norm, cross_mask=cross_mask, mask_value=mask_value)).eval()
    src, tgt = torch.randint(4, 23, (2, 5)), torch.randint(4, 29, (2, 7))
    src[1, 3:] = 1
    memory, src_mask = model.encode(src)
    cache = model.make_cache()

    with explicit_attention(model) if explicit else torch.no_grad():
        whole = model.decode(tgt, memory, src_mask)
        turns = [model.decode_next(tgt[:, : turn + 1], memory, src_mask, cache) for turn in range(7)]

    torch.testing.assert_close(torch.cat(turns, dim=1), whole, atol=1e-5, rtol=1e-5)


def test_the_cache_of_self_attention_grows_and_that_of_cross_attention_stays():
    model = Transformer(ModelConfig(**SIZES)).eval()
    memory, src_mask = model.encode(torch.randint(4, 23, (2, 5)))
    tgt, cache = torch.randint(4, 29, (2, 7)), model.make_cache()
    lengths = []

    for turn in range(3):
        model.decode_next(tgt[:, : turn + 1], memory, src_mask, cache)
        lengths.append((cache[1].self_attention.key.shape[2], cache[1].cross_attention.value.shape[2]))

    assert lengths == [(1, 5), (2, 5), (3, 5)]
