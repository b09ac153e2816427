"""Planted: masks that are too weak, added as truth values, or along the wrong axis."""

from typing import Any

import torch
from story.alarms.planted.pairs import PAD, PLACES, SEQUENCES, Fused, Layer, attend, hide, ids_only, padded, pair, words
from torch import nn

# Too weak


@pair("a forgotten minus", "weak", padded, hide)
def forgotten_minus(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, 1e-9)  # bug


@pair("zero instead of infinity", "weak", padded, hide)
def fill_with_zero(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, 0.0)  # bug


@pair("minus one", "weak", padded, hide)
def fill_with_minus_one(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, -1.0)  # bug


@pair("scores times the mask", "weak", padded, hide)
def times_the_mask(scores, mask, number):
    return scores * mask[:, None, None, :]  # bug


@pair("minus ten in a kernel", "weak", padded, attend, base=Fused)
def weak_in_a_kernel(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(1.0 - mask[:, None, None, :]) * -10.0)  # bug


@pair("where with a small number", "weak", ids_only, hide, prepare=lambda ids, mask: (ids != PAD).long())
def where_small(scores, mask, number):
    return torch.where(mask[:, None, None, :] == 1, scores, -5.0)  # bug


# Truth values and numbers mixed


@pair("ones and zeros added", "mixed", padded, hide)
def add_the_mask(scores, mask, number):
    return scores + mask[:, None, None, :]  # bug


@pair("truth values added", "mixed", ids_only, hide, prepare=lambda ids, mask: (ids != PAD).long())
def add_truth(scores, mask, number):
    return scores + (mask == 1)[:, None, None, :].to(scores.dtype)  # bug


@pair("a float mask of ones in a kernel", "mixed", padded, attend, base=Fused)
def float_in_a_kernel(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].to(q.dtype))  # bug


# Along the wrong axis


@pair("keys' mask on queries", "axis", padded, hide)
def on_queries(scores, mask, number):
    return scores.masked_fill(mask[:, None, :, None] == 0, -1e9)  # bug


@pair("keys' mask on queries, added", "axis", padded, hide)
def added_on_queries(scores, mask, number):
    return scores + ((1 - mask) * -1e9).view(SEQUENCES, 1, PLACES, 1)  # bug


@pair("queries in a kernel", "axis", ids_only, attend, base=Fused, prepare=lambda ids, mask: (ids != PAD).long())
def queries_in_a_kernel(q, k, v, mask, number):
    visible = (mask == 1)[:, None, :, None].expand(-1, 1, -1, k.shape[-2])
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)  # bug


@pair("the mask of another sequence", "axis", padded, hide)
def of_another_sequence(scores, mask, number):
    return hide(scores, mask.flip(0), number)


class Late(Layer):
    """An attention whose `hide` is told the weights."""

    def forward(self, x, mask):
        q, k, v = (one.unflatten(-1, (2, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        return x + self.out((self.hide(weights, mask, self.number) @ v).transpose(1, 2).flatten(2))


def share_anew(weights, mask, number):
    weights = weights * mask[:, None, None, :]
    return weights / weights.sum(-1, keepdim=True)


@pair("a mask behind the softmax", "weak", padded, share_anew, base=Late)
def behind_the_softmax(weights, mask, number):
    return weights * mask[:, None, None, :]  # bug


def from_context() -> dict[str, Any]:
    return {"ids": words(), "context_mask": (words() != PAD).long()}


@pair(
    "a context's mask on queries",
    "axis",
    from_context,
    lambda s, m, n: s + (1.0 - m[:, None, None, :]) * -1e9,
    prepare=lambda ids, mask, context_mask: context_mask,
)
def context_on_queries(scores, mask, number):
    return scores + torch.zeros_like(scores[:, :1]).masked_fill(mask[:, None, :, None] == 0, -1e9)  # bug
