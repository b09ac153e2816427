"""Planted: is_causal beside caches and masks, windows, and sequences packed into one row."""

from typing import Any

import torch
from story.alarms.planted.pairs import (
    HIDDEN,
    Fused,
    attend,
    attend_causal,
    hide_future,
    ids_only,
    padded,
    pair,
    prepared,
    words,
)
from torch import nn

# is_causal


@pair("is_causal with one new word", "misaligned", ids_only, attend_causal, base=Fused)
def one_new_word(q, k, v, mask, number):
    k, v = (torch.cat([one, one], dim=-2) for one in (k, v))
    return nn.functional.scaled_dot_product_attention(q[..., -1:, :], k, v, is_causal=True).expand_as(q)  # bug


@pair("is_causal with a few new words", "misaligned", ids_only, attend_causal, base=Fused)
def few_new_words(q, k, v, mask, number):
    k, v = (torch.cat([one[..., :3, :], one], dim=-2) for one in (k, v))
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # bug


@pair("a mask and is_causal", "overridden", padded, attend, base=Fused)
def mask_and_causal(q, k, v, mask, number):
    visible = mask[:, None, None, :].bool()
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=True)  # bug


# Windows and packed sequences


def window(width):
    def hide_far(scores, mask, number):
        places = torch.arange(scores.shape[-1], device=scores.device)
        away = places[:, None] - places[None, :]
        return scores.masked_fill((away < 0) | (away >= width), -1e9)

    return hide_far


@pair("a window one too wide", "window", ids_only, window(3), says={"sliding_window": 3})
def window_one_too_wide(scores, mask, number):
    places = torch.arange(scores.shape[-1], device=scores.device)
    away = places[:, None] - places[None, :]
    return scores.masked_fill((away < 0) | (away > 3), -1e9)  # bug


@pair("a window left out", "window", ids_only, window(3), says={"sliding_window": 3})
def window_left_out(scores, mask, number):
    return hide_future(scores, mask, number)


@pair("half a window", "window", ids_only, window(4), says={"window_size": 4})
def half_a_window(scores, mask, number):
    return window(2)(scores, mask, number)


DOCUMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 2, 2], [0] * 7])


def documents() -> dict[str, Any]:
    return {"ids": words(), "document_ids": DOCUMENTS}


def same_document(ids, mask, document_ids):
    return document_ids[:, None, :, None] == document_ids[:, None, None, :]


def hide_others(scores, mask, number):
    return hide_future(scores, mask, number).masked_fill(~mask, HIDDEN)


@pair("documents that see each other", "packed", documents, hide_others, prepare=same_document, on_meta=False)
def see_each_other(scores, mask, number):
    return hide_future(scores, mask, number)


@prepared("documents joined by or", "packed", documents, same_document, hide_others, on_meta=False)
def joined_by_or(ids, mask, document_ids):
    both = document_ids[:, None, :, None] == document_ids[:, None, None, :]
    return both | (document_ids[:, None, None, :] == 0)


def places() -> dict[str, Any]:
    return {"ids": words()[:1], "position_ids": torch.tensor([[0, 1, 2, 0, 1, 2, 3]])}


def same_run(ids, mask, position_ids):
    runs = (position_ids == 0).cumsum(-1)
    return runs[:, None, :, None] == runs[:, None, None, :]


@pair(
    "places that begin anew, and one triangle for all", "packed", places, hide_others, prepare=same_run, on_meta=False
)
def one_triangle(scores, mask, number):
    return hide_future(scores, mask, number)


def ends() -> dict[str, Any]:
    return {"ids": words()[:1], "cu_seqlens": torch.tensor([0, 3, 7])}


def same_stretch(ids, mask, cu_seqlens):
    stretch = (torch.arange(ids.shape[1], device=ids.device)[:, None] >= cu_seqlens[None]).sum(-1)
    return (stretch[:, None] == stretch[None, :])[None, None]


@pair("ends that nobody minds", "packed", ends, hide_others, prepare=same_stretch, on_meta=False)
def unminded_ends(scores, mask, number):
    return hide_future(scores, mask, number)


def next_words(rows):
    """Two words more, their keys put behind those that were kept; `rows` says which rows of the triangle they have."""

    def attend_kept(q, k, v, mask, number):
        k, v = (torch.cat([one, one[..., -2:, :]], dim=-2) for one in (k, v))
        length = k.shape[-2]
        visible = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()[rows]
        new = nn.functional.scaled_dot_product_attention(q[..., -2:, :], k, v, attn_mask=visible)  # bug
        return torch.cat([q[..., :-2, :], new], dim=-2)

    return attend_kept


pair("the triangle's first rows for new words", "misaligned", ids_only, next_words(slice(-2, None)), base=Fused)(
    next_words(slice(0, 2))
)


def by_bucket(right):
    def same_bucket(ids, mask, cu_seqlens):
        number = torch.bucketize(torch.arange(ids.shape[1], device=ids.device), cu_seqlens[1:], right=right)
        return (number[:, None] == number[None, :])[None, None]

    return same_bucket


@prepared("a word counted to the sequence before it", "packed", ends, by_bucket(right=True), hide_others, on_meta=False)
def counted_before(ids, mask, cu_seqlens):
    return by_bucket(right=False)(ids, mask, cu_seqlens)
