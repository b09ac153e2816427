"""A decoder-only transformer that knows nothing of X-Ray. See inside it: xray trace examples/tiny_gpt.py:build"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Causal self-attention and feed-forward, normalised before each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        projected = self.query_key_value(self.attention_norm(x))
        heads = projected.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.feed_forward_norm(x))


class TinyGPT(nn.Module):
    """Ids in, a score for every word of the vocabulary at every place out."""

    def __init__(self, vocab: int = 100, width: int = 32, heads: int = 4, layers: int = 3, longest: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model, and ids to call it with: two sequences of seven."""
    return TinyGPT(), (torch.arange(14).view(2, 7),)
