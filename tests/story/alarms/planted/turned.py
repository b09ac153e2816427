"""Planted where keys are multiplied with queries: each row of the scores is of a key, and not of a query."""

import torch
from story.alarms.planted.pairs import HIDDEN, Layer, ids_only, padded, pair


class KeysFirst(Layer):
    """Weights are made along the rows."""

    def forward(self, x, mask):
        q, k, v = (one.unflatten(-1, (2, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        scores = self.hide(k @ q.transpose(-2, -1) * q.shape[-1] ** -0.5, mask, self.number)
        return x + self.out((self.weigh(scores) @ v).transpose(1, 2).flatten(2))

    def weigh(self, scores):
        return scores.softmax(-2).transpose(-2, -1)


class TurnedBack(KeysFirst):
    """Scores are turned before weights are made."""

    def weigh(self, scores):
        return scores.transpose(-2, -1).softmax(-1)


def hide_keys(scores, mask, number):
    return scores.masked_fill(mask[:, None, :, None] == 0, HIDDEN)


def hide_later_keys(scores, mask, number):
    visible = torch.ones(scores.shape[-2:], device=scores.device).triu()
    return scores.masked_fill(visible == 0, HIDDEN)


@pair("a triangle of queries over rows of keys", "inverted", ids_only, hide_later_keys, base=KeysFirst)
def queries_over_keys(scores, mask, number):
    visible = torch.ones(scores.shape[-2:], device=scores.device).tril()
    return scores.masked_fill(visible == 0, HIDDEN)  # bug


@pair("a triangle of rows of keys one too wide", "future", ids_only, hide_later_keys, base=TurnedBack)
def one_too_wide(scores, mask, number):
    visible = torch.ones(scores.shape[-2:], device=scores.device).triu(-1)
    return scores.masked_fill(visible == 0, HIDDEN)  # bug


@pair("keys hidden along their queries", "axis", padded, hide_keys, base=KeysFirst)
def along_queries(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, HIDDEN)  # bug


@pair("keys hidden along their queries, and turned then", "axis", padded, hide_keys, base=TurnedBack)
def along_turned_queries(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, HIDDEN)  # bug
