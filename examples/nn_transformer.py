"""A translator around torch.nn.Transformer. Inside: xray trace examples/nn_transformer.py:build -o translator.svg"""

import math

import torch
from torch import Tensor, nn

PAD = 0


class Translator(nn.Module):
    """Ids of a sentence, and of its translation so far, in; a score for every word at every place out."""

    def __init__(
        self, vocab: int = 100, width: int = 32, heads: int = 4, layers: int = 3, hidden: int = 64, longest: int = 50
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, width, padding_idx=PAD)
        self.places = nn.Embedding(longest, width)
        self.transformer = nn.Transformer(width, heads, layers, layers, hidden, batch_first=True)
        self.head = nn.Linear(width, vocab)
        self.width = width

    def embed(self, ids: Tensor) -> Tensor:
        return self.words(ids) * math.sqrt(self.width) + self.places(torch.arange(ids.shape[1], device=ids.device))

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        length, is_padding = tgt.shape[1], src == PAD
        future = torch.ones(length, length, dtype=torch.bool, device=tgt.device).triu(1)
        decoded = self.transformer(
            self.embed(src),
            self.embed(tgt),
            tgt_mask=future,
            src_key_padding_mask=is_padding,
            memory_key_padding_mask=is_padding,
        )
        return self.head(decoded)


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model in evaluation, where torch takes its fast paths, and two sentences, the second one padded."""
    torch.manual_seed(0)
    src = torch.tensor([[11, 12, 13, 14, 15, 16, 17], [21, 22, 23, 24, PAD, PAD, PAD]])
    tgt = torch.tensor([[1, 31, 32, 33, 34], [1, 41, 42, 43, 44]])
    return Translator().eval(), {"src": src, "tgt": tgt}
