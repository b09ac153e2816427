"""Planted: masks that are too weak, added as truth values, or along the wrong axis."""

import torch
from story.alarms.planted.pairs import PAD, PLACES, SEQUENCES, Fused, attend, hide, ids_only, padded, pair
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
