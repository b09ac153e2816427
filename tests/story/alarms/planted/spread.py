"""Planted where heads are joined: places lie behind the heads, and are not turned before them."""

import torch
from story.alarms.planted.pairs import HEADS, PLACES, WIDTH, Layer, Stack, hide_future, ids_only, whole
from torch import nn


class Joined(Layer):
    """An attention whose heads are joined by a method of its own."""

    def forward(self, x, mask):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        scores = self.hide(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, mask, self.number)
        return x + self.out(self.join(scores.softmax(-1) @ v))

    def join(self, found):
        return found.transpose(1, 2).reshape(len(found), -1, WIDTH)


class AllAtOnce(Joined):
    """Queries, keys and values are cut all at once, and a kernel attends."""

    def forward(self, x, mask):
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        return x + self.out(self.join(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)))


class Chosen(Joined):
    """Some queries alone ask, and what they find is put among the rows of all places (Informer)."""

    def forward(self, x, mask):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        best = q.sum(-1).topk(3).indices
        sequences, heads = torch.arange(len(x), device=x.device)[:, None, None], torch.arange(HEADS, device=x.device)
        scores = q[sequences, heads[:, None], best] @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        found = v.mean(-2, keepdim=True).expand(v.shape).clone()
        found[sequences, heads[:, None], best] = scores.softmax(-1) @ v
        return x + self.out(self.join(found))


class AsTheyLie(Joined):
    """Rows are cut into heads as they lie, without a turn, and joined so: each number stands where it did."""

    def forward(self, x, mask):
        q, k, v = (one.reshape(len(x), HEADS, PLACES, -1) for one in self.qkv(x).chunk(3, dim=-1))
        scores = self.hide(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, mask, self.number)
        return x + self.out((scores.softmax(-1) @ v).reshape(x.shape))


def healthy(base):
    return lambda: Stack(base, hide_future)


def spreads(base, name, good=None):
    """Notes what joins heads, with a bug, in layers of a kind."""

    def build(join):
        return Stack(type("Spread", (base,), {"join": lambda self, found: join(found)}), hide_future)

    return whole(name, "spread", ids_only, healthy(good or base), build)


@spreads(Joined, "heads are joined without a turn")
def without_turn(found):
    return found.reshape(len(found), -1, WIDTH)  # bug


@spreads(Joined, "heads are turned and turned back", good=AsTheyLie)
def turned_back(found):
    return found.transpose(1, 2).transpose(2, 1).contiguous().view(len(found), -1, WIDTH)  # bug


@spreads(AllAtOnce, "what a kernel gives is joined without a turn")
def of_a_kernel(found):
    return found.reshape(len(found), -1, WIDTH)  # bug


@spreads(Chosen, "what some queries found is joined without a turn")
def of_some_queries(found):
    return found.reshape(len(found), -1, WIDTH)  # bug
