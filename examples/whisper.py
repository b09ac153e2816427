"""Whisper, small and untrained. See inside it: xray trace examples/whisper.py:build -o whisper.svg"""

import torch
from torch import Tensor, nn

try:
    from transformers import WhisperConfig, WhisperForConditionalGeneration
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, two spectrograms of 40 moments, of which the encoder makes 20, and the beginning of what is said."""
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=100,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=20,
        max_target_positions=30,
        pad_token_id=99,
        bos_token_id=98,
        eos_token_id=98,
        decoder_start_token_id=97,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    said = torch.tensor([[97, 31, 32, 33, 34], [97, 41, 42, 43, 44]])
    inputs = {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": said}
    return WhisperForConditionalGeneration(config).eval(), inputs
