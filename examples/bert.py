"""BERT with its masked words, small and untrained. See inside it: xray trace examples/bert.py:build -o bert.svg"""

import torch
from torch import Tensor, nn

try:
    from transformers import BertConfig, BertForMaskedLM
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error

PAD, BEGIN, END, MASK = 0, 1, 2, 3


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, and two sentences with a word hidden in each, the second one padded."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=50,
    )
    sentence = torch.tensor([[BEGIN, 12, MASK, 14, 15, 16, END], [BEGIN, 22, MASK, END, PAD, PAD, PAD]])
    return BertForMaskedLM(config).eval(), {"input_ids": sentence, "attention_mask": (sentence != PAD).long()}
