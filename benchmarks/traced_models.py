"""The models that tracing.py traces: the chatbot, a large encoder-decoder, one like GPT-2, and towers of layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from xray.config import ModelConfig
from xray.model.transformer import Transformer

Built = tuple[nn.Module, tuple[Any, ...]]


def build_chatbot() -> Built:
    """X-Ray's own model with its default sizes, and a batch of 8: questions of 10, answers of 14."""
    model = Transformer(ModelConfig(src_vocab=1245, tgt_vocab=950))
    return model.eval(), (torch.randint(4, 900, (8, 10)), torch.randint(4, 900, (8, 14)))


def build_encoder_decoder() -> Built:
    """torch.nn.Transformer: 12 + 12 layers, 768 wide, 12 heads; two sequences of 48 and 32."""
    model = nn.Transformer(768, 12, 12, 12, 3072, batch_first=True)
    return model.eval(), (torch.randn(2, 48, 768), torch.randn(2, 32, 768))


def build_own_encoder_decoder() -> Built:
    """X-Ray's own model: 12 + 12 layers, 768 wide, 12 heads; two sequences of 48 and 32."""
    sizes: dict[str, Any] = {
        "d_model": 768,
        "heads": 12,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "d_ff": 3072,
        "max_len": 64,
    }
    model = Transformer(ModelConfig(src_vocab=8000, tgt_vocab=8000, **sizes))
    return model.eval(), (torch.randint(4, 900, (2, 48)), torch.randint(4, 900, (2, 32)))


class Logits(nn.Module):
    """A model of `transformers` called with ids alone, and giving one tensor, as every tracer can take it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, use_cache=False).logits


def build_gpt2() -> Built:
    """GPT-2 in its small size, of `transformers`, untrained: 12 layers, 768 wide; a text of 64."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return Logits(GPT2LMHeadModel(GPT2Config())).eval(), (torch.randint(0, 50_000, (1, 64)),)


def build_tower(layers: int) -> Built:
    """X-Ray's own model, small, with so many layers on each side."""
    model = Transformer(ModelConfig(src_vocab=500, tgt_vocab=500, encoder_layers=layers, decoder_layers=layers))
    return model.eval(), (torch.randint(4, 400, (4, 10)), torch.randint(4, 400, (4, 14)))


MODELS: dict[str, Callable[[], Built]] = {
    "chatbot": build_chatbot,
    "nn.Transformer 12+12": build_encoder_decoder,
    "own 12+12": build_own_encoder_decoder,
    "GPT-2 small": build_gpt2,
}
TOWERS = (2, 4, 8, 16)


def build(name: str, device: str = "cpu") -> Built:
    """The model of that name, "tower 4" among them, with the same weights each time."""
    torch.manual_seed(0)
    kind, _, layers = name.partition(" ")
    model, inputs = build_tower(int(layers)) if kind == "tower" else MODELS[name]()
    return model.to(device), tuple(one.to(device) for one in inputs)
