"""Planted: masks that reach no attention, or some layers only."""

import torch
from story.alarms.planted.pairs import (
    Fused,
    Layer,
    Stack,
    attend,
    hide,
    hide_both,
    hide_future,
    padded,
    pair,
    prepared,
    whole,
)
from torch import nn


@whole("layers that take a mask and leave it", "unreached", padded, lambda: Stack(Layer, hide))
class Forgetful(Stack):
    def __init__(self):
        super().__init__(Layer, lambda scores, mask, number: scores)

    def forward(self, ids, attention_mask=None, **others):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, attention_mask)  # bug
        return self.head(x)


@prepared("a mask overwritten by ones", "unreached", padded, lambda ids, mask: mask, hide)
def overwrite(ids, mask):
    return torch.ones_like(mask)  # bug


@prepared("a mask compared with what it never is", "unreached", padded, lambda ids, mask: mask, hide)
def compare_with_nothing(ids, mask):
    return (mask >= 0).long()  # bug


@pair("a kernel that is given no mask", "unreached", padded, attend, base=Fused, on_meta=True)
def attend_to_all(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v)


@whole("a mask that waits for a setting", "unreached", padded, lambda: Stack(Layer, hide))
class Waiting(Stack):
    def __init__(self):
        super().__init__(Layer, hide_future)
        self.use_mask = False

    def forward(self, ids, attention_mask=None, **others):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, attention_mask if self.use_mask else None)
        return self.head(x)


@pair("one layer left out", "some layers", padded, hide)
def leave_one_out(scores, mask, number):
    return scores if number == 1 else hide(scores, mask, number)


@pair("the first layer only", "some layers", padded, hide)
def first_only(scores, mask, number):
    return hide(scores, mask, number) if number == 0 else scores


@pair("the last layer without its kernel's mask", "some layers", padded, attend, base=Fused)
def all_but_last(q, k, v, mask, number):
    if number == 2:
        return nn.functional.scaled_dot_product_attention(q, k, v)  # bug
    return attend(q, k, v, mask, number)


@pair("a layer that reads the future's mask only", "some layers", padded, hide_both)
def future_only_in_one(scores, mask, number):
    return hide_future(scores, mask, number) if number == 2 else hide_both(scores, mask, number)
