"""Planted in flex attention: functions that say who sees whom, and say it wrong."""

import torch
from story.alarms.planted.pairs import HEADS, PAIRS, VOCAB, WIDTH, Pair, ids_only
from story.alarms.planted.sequences import DOCUMENTS, documents
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Flexible(nn.Module):
    """Two layers of flex attention; `attend` is told queries, keys, values and the documents."""

    def __init__(self, attend):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.attend = attend

    def forward(self, ids, document_ids=None):
        x = self.words(ids)
        for layer in self.layers:
            q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in layer(x).chunk(3, dim=-1))
            x = x + self.attend(q, k, v, document_ids).transpose(1, 2).flatten(2)
        return self.head(x)


def flex_pair(name, kind, inputs, good):
    def note(bad):
        PAIRS.append(Pair(name, kind, lambda: Flexible(bad), lambda: Flexible(good), inputs, bad, on_meta=False))
        return bad

    return note


def see_past(batch, head, query, key):
    return query >= key


def ask(mask_mod, length, sequences=None):
    return create_block_mask(mask_mod, sequences, None, length, length, device="cpu")


def attend_past(q, k, v, document_ids):
    return flex_attention(q, k, v, block_mask=ask(see_past, q.shape[-2]))


def attend_own(q, k, v, document_ids):
    def see_own(batch, head, query, key):
        return (query >= key) & (DOCUMENTS[batch, query] == DOCUMENTS[batch, key])

    return flex_attention(q, k, v, block_mask=ask(see_own, q.shape[-2], len(q)))


@flex_pair("a mask_mod one off", "future", ids_only, attend_past)
def one_off(q, k, v, document_ids):
    mask = ask(lambda batch, head, query, key: query + 1 >= key, q.shape[-2])
    return flex_attention(q, k, v, block_mask=mask)  # bug


@flex_pair("a score_mod that hides the past", "inverted", ids_only, attend_past)
def hides_the_past(q, k, v, document_ids):
    def hide(score, batch, head, query, key):
        return torch.where(query < key, score, -float("inf"))

    return flex_attention(q, k, v, score_mod=hide)  # bug


@flex_pair("a mask_mod that forgets the documents", "packed", documents, attend_own)
def forgets_documents(q, k, v, document_ids):
    return flex_attention(q, k, v, block_mask=ask(see_past, q.shape[-2]))  # bug
