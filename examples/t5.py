"""T5, small and untrained: positions as a bias of the scores. See inside: xray trace examples/t5.py:build -o t5.svg"""

import torch
from torch import Tensor, nn

try:
    from transformers import T5Config, T5ForConditionalGeneration
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, two questions, the second one padded, and the beginning of two answers."""
    torch.manual_seed(0)
    config = T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=3, num_heads=4, decoder_start_token_id=0)
    question = torch.tensor([[11, 12, 13, 14, 15, 16, 1], [21, 22, 23, 1, 0, 0, 0]])
    answer = torch.tensor([[0, 31, 32, 33, 34], [0, 41, 42, 43, 44]])
    inputs = {"input_ids": question, "attention_mask": (question != 0).long(), "decoder_input_ids": answer}
    return T5ForConditionalGeneration(config).eval(), inputs
