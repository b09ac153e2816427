"""A transformer layer written by hand, with the choices and the mistakes that tests of recognition ask for."""

from typing import Literal

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention in the hand-writing that is asked for; `x` asks, `memory` answers.

    `swap` lets keys and values change places, `sharp` leaves the softmax out, `letters` writes products as einsum.
    """

    def __init__(self, width: int, heads: int, *, letters: bool = False, swap: bool = False, sharp: bool = False):
        super().__init__()
        self.heads, self.letters, self.swap, self.sharp = heads, letters, swap, sharp
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.third = nn.Linear(width, width)
        self.last = nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.first(x), self.second(memory), self.third(memory)
        if self.swap:
            k, v = v, k
        q, k, v = (one.view(*one.shape[:2], self.heads, -1) for one in (q, k, v))
        if self.letters:
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        else:
            q, k, v = (one.transpose(1, 2) for one in (q, k, v))
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -torch.inf)
        weights = scores if self.sharp else scores.softmax(-1)
        if self.letters:
            return self.last(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))
        return self.last((weights @ v).transpose(1, 2).flatten(2))


class SpeltNorm(nn.Module):
    """Layer normalisation in plain arithmetic."""

    def __init__(self, width: int):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.gain * (x - mean) / (spread + 1e-6) + self.shift


class Layer(nn.Module):
    """Self-attention and feed-forward on a residual stream, the norms before or after."""

    def __init__(self, width: int, attention: nn.Module, *, norm: Literal["before", "after"], spelt: bool = False):
        super().__init__()
        self.norm, self.one = norm, attention
        self.two = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        kind = SpeltNorm if spelt else nn.LayerNorm
        self.three, self.four = kind(width), kind(width)

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        if self.norm == "after":
            x = self.three(x + self.one(x, x if memory is None else memory, mask))
            return self.four(x + self.two(x))
        y = self.three(x)
        x = x + self.one(y, y if memory is None else memory, mask)
        return x + self.two(self.four(x))


class Writer(nn.Module):
    """Words, layers, and a score for every word; each word sees itself and those before it."""

    def __init__(self, vocab: int, layers: list[nn.Module], width: int):
        super().__init__()
        self.words, self.rows = nn.Embedding(vocab, width), nn.ModuleList(layers)
        self.scores = nn.Linear(width, vocab)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        future = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        for row in self.rows:
            x = row(x, None, future)
        return self.scores(x)


def make_writer(width: int = 15, heads: int = 3, *, norm: Literal["before", "after"] = "before", spelt=False, **how):
    """A writer of two layers, with the attention that is asked for."""
    layers: list[nn.Module] = [Layer(width, Attention(width, heads, **how), norm=norm, spelt=spelt) for _ in range(2)]
    return Writer(53, layers, width)
