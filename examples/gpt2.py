"""GPT-2, small and untrained. See inside one pass: xray trace examples/gpt2.py:build -o gpt2.svg

`python examples/gpt2.py` lets it write four words instead, and draws all turns with their growing keys.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

import xray

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error

END = 99


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, and the beginning of a text."""
    torch.manual_seed(0)
    ends = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": END}
    config = GPT2Config(vocab_size=100, n_positions=50, n_embd=32, n_layer=3, n_head=4, **ends)
    text = torch.tensor([[11, 12, 13, 14, 15, 16, 17]])
    return GPT2LMHeadModel(config).eval(), {"input_ids": text, "attention_mask": torch.ones_like(text)}


def write(words: int) -> xray.Trace:
    """What runs while the model writes so many words: a pass for each."""
    model, inputs = build()
    with xray.record(model) as recorder:
        model.generate(**inputs, max_new_tokens=words, min_new_tokens=words, do_sample=False)
    return recorder.trace


if __name__ == "__main__":
    Path("gpt2_writes.svg").write_text(xray.render(write(4), "svg"), encoding="utf-8")
