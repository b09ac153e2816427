"""A small GPT, and the ways in which a script divides one among ranks."""

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.functional import gelu, scaled_dot_product_attention


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.d_k = width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = (
            layer(x).view(batch, length, -1, self.d_k).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.first_norm(x))
        return x + self.down(gelu(self.up(self.second_norm(x))))


class GPT(nn.Module):
    def __init__(self, width=32, heads=4, layers=2, vocab=48):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


WORDS = torch.arange(16).view(2, 8)


def make_gpt():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT()


def divide_by_heads(model, mesh):
    """Tensor parallel: heads and hidden features."""
    for layer in model.layers:
        plan: dict[str, ParallelStyle] = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
        plan |= {"attention.out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(layer, mesh, plan)
    return model


def divide_by_words(model, mesh):
    """Tensor parallel with the stream divided by words between the layers, and the vocabulary too."""
    for layer in model.layers:
        plan: dict[str, ParallelStyle] = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
        plan |= {
            "first_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "attention.out": RowwiseParallel(output_layouts=Shard(1)),
            "second_norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(layer, mesh, plan)
    ends: dict[str, ParallelStyle] = {
        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    return parallelize_module(model, mesh, ends)
