"""A norm that an attention behind the layers has for its keys is that attention's, and no last norm."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray

ASKING, LENGTH = 5, 7


class Asks(nn.Module):
    """Learned rows look at what the layers give, by a norm of their own or by one that stands before them."""

    def __init__(self, *, is_own):
        super().__init__()
        self.rows = nn.Parameter(torch.rand(ASKING, WIDTH))
        self.norm = nn.LayerNorm(WIDTH) if is_own else nn.Identity()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, memory):
        memory = self.norm(memory)
        asked = self.rows.expand(memory.shape[0], -1, -1)
        rows = self.query(asked), self.key(memory), self.value(memory)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Perceives(nn.Module):
    def __init__(self, *, is_own):
        super().__init__()
        parts = (part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), *parts, *(() if is_own else (nn.LayerNorm(WIDTH),)))
        self.look = Asks(is_own=is_own)

    def forward(self, x):
        return self.look(self.layers(x))


@pytest.mark.parametrize(("is_own", "told"), [(True, None), (False, "layer")])
def test_a_norm_within_an_attention_behind_the_layers_ends_no_tower(is_own, told):
    torch.manual_seed(0)
    trace = xray.trace(Perceives(is_own=is_own).eval(), torch.rand(2, LENGTH, WIDTH))

    assert xray.anatomy(trace).towers[0].final_norm == told
