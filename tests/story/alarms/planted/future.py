"""Planted: attention that sees what comes, and rows that see nothing."""

import torch
from story.alarms.planted.pairs import (
    HIDDEN,
    Fused,
    Layer,
    Stack,
    attend_causal,
    hide,
    hide_both,
    hide_future,
    ids_only,
    padded,
    pair,
    prepared,
    whole,
)
from torch import nn

# The future


@pair("a triangle one too wide", "future", ids_only, hide_future)
def one_too_wide(scores, mask, number):
    visible = torch.tril(torch.ones(scores.shape[-2:], device=scores.device), diagonal=1)
    return scores.masked_fill(visible == 0, HIDDEN)  # bug


@pair("hidden from the second key on", "future", ids_only, attend_causal, base=Fused)
def from_the_second(q, k, v, mask, number):
    hidden = torch.full((q.shape[-2], k.shape[-2]), HIDDEN, device=q.device).triu(2)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)  # bug


@pair("places compared one off", "future", ids_only, hide_future)
def places_one_off(scores, mask, number):
    places = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill(places[None, :] > places[:, None] + 1, -1e9)  # bug


@pair("one layer that sees ahead", "future", ids_only, hide_future)
def one_sees_ahead(scores, mask, number):
    return scores if number == 2 else hide_future(scores, mask, number)


@pair("one kernel without is_causal", "future", ids_only, attend_causal, base=Fused)
def one_not_causal(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=number != 1)  # bug


@pair("padding instead of the future", "future", padded, hide_both, says={"is_causal": True})
def padding_instead(scores, mask, number):
    return hide(scores, mask, number)


class Taught(Stack):
    """A model that is taught the next word in its forward."""

    def forward(self, ids, attention_mask=None, **others):
        logits = super().forward(ids, attention_mask)
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@whole("taught the word that it sees", "future", padded, lambda: Taught(Layer, hide_both))
class SeesTheAnswer(Taught):
    def __init__(self):
        super().__init__(Layer, hide)


# Rows that see nothing


@pair("a triangle without its diagonal", "blind", ids_only, hide_future)
def without_diagonal(scores, mask, number):
    visible = torch.tril(torch.ones(scores.shape[-2:], device=scores.device), diagonal=-1)
    return scores.masked_fill(visible == 0, HIDDEN)  # bug


@prepared("a sequence that is all padding", "blind", padded, lambda ids, mask: mask, hide, on_meta=False)
def all_padding(ids, mask):
    mask = mask.clone()
    mask[1] = 0
    return mask


@pair("a window and padding that leave nothing", "blind", padded, hide_both, on_meta=False)
def narrow_and_padded(scores, mask, number):
    places = torch.arange(scores.shape[-1], device=scores.device)
    near = (places[:, None] - places[None, :]).abs() < 2
    return hide(scores.masked_fill(~near, HIDDEN), mask, number)


def both_sides(scores, mask, number):
    places = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill((places[:, None] - places[None, :]).abs() > 2, HIDDEN)


@whole("a window to both sides before the next word", "future", ids_only, lambda: Taught(Layer, hide_future))
class LooksToBothSides(Taught):
    def __init__(self):
        super().__init__(Layer, both_sides)


@whole("the future or padding in the place of and", "future", padded, lambda: Taught(Layer, hide_both))
class JoinedByOr(Taught):
    def __init__(self):
        super().__init__(Layer, either_of_them)


def either_of_them(scores, mask, number):
    visible = torch.ones(scores.shape[-2:], device=scores.device).tril().bool() | mask[:, None, None, :].bool()
    return scores.masked_fill(~visible, HIDDEN)
