"""Marian, a translator, small and untrained. See inside it: xray trace examples/marian.py:build -o marian.svg"""

import torch
from torch import Tensor, nn

try:
    from transformers import MarianConfig, MarianMTModel
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error

PAD, END = 99, 0


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, two sentences, the second one padded, and the beginning of their translations."""
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=100,
        d_model=32,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=50,
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=END,
        decoder_start_token_id=PAD,
    )
    sentence = torch.tensor([[11, 12, 13, 14, 15, 16, END], [21, 22, 23, END, PAD, PAD, PAD]])
    translation = torch.tensor([[PAD, 31, 32, 33, 34], [PAD, 41, 42, 43, 44]])
    inputs = {"input_ids": sentence, "attention_mask": (sentence != PAD).long(), "decoder_input_ids": translation}
    return MarianMTModel(config).eval(), inputs
