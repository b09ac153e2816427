"""Planted: sequences that lie end to end, in a kernel that is told where each one ends."""

from itertools import pairwise

import torch
from story.alarms.planted.pairs import HEADS, PAIRS, VOCAB, WIDTH, Pair
from torch import nn

LENGTHS = torch.tensor([3, 4, 4], dtype=torch.int32)
TOTAL = int(LENGTHS.sum())


@torch.library.custom_op("planted::flash_attn_varlen_forward", mutates_args=())
def run_kernel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
) -> torch.Tensor:
    """A varlen kernel with flash attention's arguments, which runs anywhere; it stops at the last word."""
    out = torch.zeros_like(q)
    for (first, last), (begin, end) in zip(
        pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=False
    ):
        one, other, third = (x[a:b].transpose(0, 1) for x, a, b in ((q, first, last), (k, begin, end), (v, begin, end)))
        mixed = nn.functional.scaled_dot_product_attention(one, other, third, is_causal=causal)
        out[first:last] = mixed.transpose(0, 1)
    return out


@run_kernel.register_fake
def shape_of_kernel(q, k, v, *others):
    return torch.empty_like(q)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False, window=-1):
    return run_kernel(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal, window, 0 if causal else -1
    )


class Packed(nn.Module):
    """Words of several sequences in one row without a batch; `attend` is told where they end."""

    def __init__(self, attend):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attend = attend

    def forward(self, ids, cu_seqlens):
        x = self.words(ids)
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).unbind(1)
        return self.head(x + self.out(self.attend(q, k, v, cu_seqlens).flatten(1)))


def packed_words():
    ends = torch.zeros(len(LENGTHS) + 1, dtype=torch.int32)
    ends[1:] = LENGTHS.cumsum(0)
    return {"ids": torch.arange(1, TOTAL + 1), "cu_seqlens": ends}


def varlen_pair(name, kind, good, **others):
    def note(bad):
        one = Pair(name, kind, lambda: Packed(bad), lambda: Packed(good), packed_words, bad, **others)
        PAIRS.append(one)
        return bad

    return note


def attend_apart(q, k, v, ends):
    return flash_attn_varlen_func(q, k, v, ends, ends, 4, 4, causal=True)


def attend_both_ways(q, k, v, ends):
    return flash_attn_varlen_func(q, k, v, ends, ends, 4, 4)


@varlen_pair("a kernel told of one long sequence", "packed", attend_apart, on_meta=False)
def one_long_sequence(q, k, v, ends):
    whole = torch.tensor([0, len(q)], dtype=torch.int32, device=q.device)
    return run_kernel(q, k, v, whole, whole, len(q), len(q), True)  # bug


@varlen_pair("a kernel that forgets one end", "packed", attend_both_ways, on_meta=False)
def one_end_forgotten(q, k, v, ends):
    fewer = torch.cat([ends[:1], ends[2:]])
    return run_kernel(q, k, v, fewer, fewer, 7, 7)  # bug


@varlen_pair("ends without the last sequence", "ends", attend_apart, on_meta=False)
def without_the_last(q, k, v, ends):
    return run_kernel(q, k, v, ends[:-1], ends[:-1], 4, 4, True)  # bug


@varlen_pair("lengths in the place of ends", "ends", attend_apart, on_meta=False)
def lengths_for_ends(q, k, v, ends):
    lengths = ends.diff()
    return run_kernel(q, k, v, lengths, lengths, 4, 4, True)  # bug


@varlen_pair("a longest length that is too short", "ends", attend_both_ways, on_meta=False)
def too_short(q, k, v, ends):
    return run_kernel(q, k, v, ends, ends, 3, 3)  # bug


@varlen_pair("keys that end elsewhere", "ends", attend_both_ways, on_meta=False)
def other_keys(q, k, v, ends):
    return run_kernel(q, k, v, ends, ends[[0, 1, 3]], 4, 8)  # bug
