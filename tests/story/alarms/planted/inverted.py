"""Planted: masks and triangles that are turned round."""

from typing import Any

import torch
from story.alarms.planted.pairs import (
    HIDDEN,
    PAD,
    Fused,
    attend,
    attend_causal,
    hide,
    hide_future,
    ids_only,
    lengths,
    padded,
    pair,
    prepared,
    words,
)
from torch import nn


@pair("what is kept is filled", "inverted", padded, hide, on_meta=False)
def fill_what_is_kept(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 1, HIDDEN)  # bug


@prepared("words instead of padding", "inverted", ids_only, lambda ids, mask: (ids != PAD).long(), hide)
def words_instead_of_padding(ids, mask):
    return (ids == PAD).long()


@pair("a forgotten 1 -", "inverted", padded, lambda s, m, n: s + (1.0 - m[:, None, None, :]) * -1e9, on_meta=False)
def forgotten_one_minus(scores, mask, number):
    return scores + mask[:, None, None, :] * -1e9  # bug


@pair(
    "where the wrong way",
    "inverted",
    padded,
    lambda s, m, n: torch.where(m[:, None, None].bool(), s, HIDDEN),
    on_meta=False,
)
def where_the_wrong_way(scores, mask, number):
    return torch.where(mask[:, None, None].bool(), HIDDEN, scores)  # bug


@pair("a kernel told what is padding", "inverted", ids_only, attend, base=Fused, prepare=lambda ids, mask: ids)
def kernel_told_padding(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(mask == PAD)[:, None, None, :])  # bug


@pair("the triangle of what is hidden given to a kernel", "inverted", ids_only, attend_causal, base=Fused)
def wrong_triangle(q, k, v, mask, number):
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)  # bug


@pair("the triangle filled on its wrong side", "inverted", ids_only, hide_future)
def fill_the_past(scores, mask, number):
    visible = torch.tril(torch.ones(scores.shape[-2:], device=scores.device))
    return scores.masked_fill(visible == 1, HIDDEN)  # bug


@pair("an added triangle on its wrong side", "inverted", ids_only, hide_future)
def add_the_past(scores, mask, number):
    return scores + torch.full(scores.shape[-2:], HIDDEN, device=scores.device).tril()  # bug


def by_lengths() -> dict[str, Any]:
    return {"ids": words(), "lengths": lengths()}


def behind_the_end(ids, mask, lengths):
    return torch.arange(ids.shape[1], device=ids.device)[None] >= lengths[:, None]


@pair(
    "lengths read the wrong way",
    "inverted",
    by_lengths,
    lambda s, m, n: s.masked_fill(m[:, None, None], -1e9),
    prepare=behind_the_end,
)
def before_the_end(scores, mask, number):
    return scores.masked_fill(~mask[:, None, None], -1e9)  # bug
