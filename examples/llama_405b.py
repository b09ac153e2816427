"""A model as large as Llama 3.1 with its 405 billion parameters, written out; it runs without storage.

See inside it: xray trace examples/llama_405b.py:build --meta -o llama_405b.svg
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal attention with rotary positions, where several heads of queries share one of keys and values."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.d_k = heads, key_heads, width // heads
        self.query = nn.Linear(width, heads * self.d_k, bias=False)
        self.key = nn.Linear(width, key_heads * self.d_k, bias=False)
        self.value = nn.Linear(width, key_heads * self.d_k, bias=False)
        self.output = nn.Linear(heads * self.d_k, width, bias=False)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, self.heads, self.d_k).transpose(1, 2)
        key = self.key(x).view(batch, length, self.key_heads, self.d_k).transpose(1, 2)
        value = self.value(x).view(batch, length, self.key_heads, self.d_k).transpose(1, 2)
        query, key = rotate(query, turns), rotate(key, turns)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, self.heads * self.d_k))


class FeedForward(nn.Module):
    """Two ways to widen, one of them the gate of the other, and back."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.expand = nn.Linear(width, hidden, bias=False)
        self.contract = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(functional.silu(self.gate(x)) * self.expand(x))


class Layer(nn.Module):
    """Attention and feed-forward, normalised before each."""

    def __init__(self, width: int, heads: int, key_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, key_heads)
        self.feed_forward_norm = nn.RMSNorm(width, eps=1e-5)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """Ids in, a score for every word of the vocabulary at every place out."""

    def __init__(self, vocab: int, width: int, layers: int, heads: int, key_heads: int, hidden: int) -> None:
        super().__init__()
        self.d_k = width // heads
        self.words = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width, heads, key_heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        turns = angles(self.d_k, x)
        for layer in self.layers:
            x = layer(x, turns)
        return self.lm_head(self.norm(x))


def angles(d_k: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of how far each pair of values is turned at each place of x; (length, d_k) both."""
    speeds = 500_000.0 ** (-torch.arange(0, d_k, 2, device=x.device) / d_k)
    turned = torch.arange(x.shape[1], device=x.device)[:, None] * speeds
    turned = torch.cat((turned, turned), dim=-1)
    return turned.cos().to(x.dtype), turned.sin().to(x.dtype)


def rotate(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair of values by the angle of its place."""
    first, second = x.chunk(2, dim=-1)
    return x * turns[0] + torch.cat((-second, first), dim=-1) * turns[1]


def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """126 layers, 16,384 wide, 128 heads that share 8 of keys and values, and a text of 8,192 words."""
    model = Llama(vocab=128_256, width=16_384, layers=126, heads=128, key_heads=8, hidden=53_248)
    return model.to(torch.bfloat16).eval(), (torch.zeros(1, 8192, dtype=torch.long),)


def build_small() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The same in a size that runs anywhere."""
    torch.manual_seed(0)
    model = Llama(vocab=100, width=64, layers=3, heads=8, key_heads=2, hidden=96)
    return model.eval(), (torch.arange(11, 25).view(2, 7),)
