"""Sizes, settings and a padded batch for models so small that a test can afford them."""

from typing import Any

import torch

from xray.config import EOS, PAD, SOS

SIZES: dict[str, Any] = {
    "src_vocab": 17,
    "tgt_vocab": 19,
    "d_model": 33,
    "heads": 3,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "d_ff": 13,
    "max_len": 11,
}
SRC = torch.tensor([[5, 6, 7, 8, 9], [4, 10, PAD, PAD, PAD]])
TGT = torch.tensor([[SOS, 5, 6, 7, 8, 9, EOS], [SOS, 4, 5, EOS, PAD, PAD, PAD]])
SETTINGS = {
    "plain": {},
    "norm before": {"norm": "before"},
    "no cross mask": {"cross_mask": "none"},
    "minus infinity": {"mask_value": "-inf"},
    "no scaling": {"scale_embeddings": False},
    "decoder shares": {"sharing": "decoder"},
    "all share": {"sharing": "all", "src_vocab": 19},
}
