"""BART, small and untrained. See inside it: xray trace examples/bart.py:build -o bart.svg"""

import torch
from torch import Tensor, nn

try:
    from transformers import BartConfig, BartForConditionalGeneration
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error

PAD = 1


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, two texts, the second one padded, and the beginning of two summaries."""
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=100,
        d_model=32,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=50,
    )
    text = torch.tensor([[0, 12, 13, 14, 15, 16, 2], [0, 22, 23, 2, PAD, PAD, PAD]])
    summary = torch.tensor([[2, 0, 32, 33, 34], [2, 0, 42, 43, 44]])
    inputs = {"input_ids": text, "attention_mask": (text != PAD).long(), "decoder_input_ids": summary}
    return BartForConditionalGeneration(config).eval(), inputs
