"""Llama, small and untrained: rotary positions, and four heads of queries for each of keys.

See inside it: xray trace examples/llama.py:build -o llama.svg
"""

import torch
from torch import Tensor, nn

try:
    from transformers import LlamaConfig, LlamaForCausalLM
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, and the beginning of two texts."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=50,
    )
    return LlamaForCausalLM(config).eval(), {"input_ids": torch.arange(11, 25).view(2, 7)}
