"""Planted in torch's own layers: nn.TransformerEncoder and nn.MultiheadAttention."""

import torch
from story.alarms.planted.pairs import HEADS, PAD, PAIRS, PLACES, VOCAB, WIDTH, Pair, ids_only, padded, words
from torch import nn


class Encoder(nn.Module):
    """nn.TransformerEncoder between words and scores; `call` gives it its masks."""

    def __init__(self, call, layers=2, norm_first=False):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True, norm_first=norm_first)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.call = call

    def forward(self, ids, attention_mask=None):
        return self.head(self.call(self.encoder, self.words(ids), ids, attention_mask))


def torch_pair(name, kind, inputs, good, **others):
    def note(bad):
        PAIRS.append(Pair(name, kind, lambda: Encoder(bad), lambda: Encoder(good), inputs, bad, **others))
        return bad

    return note


def encode_well(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=ids == PAD)


def encode_by_mask(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=mask == 0)


def encode_causally(encoder, x, ids, mask):
    return encoder(x, mask=torch.ones(PLACES, PLACES, dtype=torch.bool, device=x.device).triu(1))


@torch_pair("torch's encoder told what are words", "inverted", ids_only, encode_well)
def told_words(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=ids != PAD)


@torch_pair("torch's encoder given a library's mask", "inverted", padded, encode_by_mask, on_meta=False)
def given_a_librarys_mask(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=mask.bool())


@torch_pair("torch's encoder given what is visible", "inverted", ids_only, encode_causally, on_meta=False)
def given_what_is_visible(encoder, x, ids, mask):
    return encoder(x, mask=torch.ones(PLACES, PLACES, dtype=torch.bool, device=x.device).tril())


@torch_pair("torch's encoder given no mask", "unreached", padded, encode_by_mask)
def given_no_mask(encoder, x, ids, mask):
    return encoder(x)


@torch_pair("torch's encoder one off", "future", ids_only, encode_causally, on_meta=False)
def torch_one_off(encoder, x, ids, mask):
    return encoder(x, mask=torch.ones(PLACES, PLACES, dtype=torch.bool, device=x.device).triu(2))


class Heads(nn.Module):
    """nn.MultiheadAttention between words and scores; `call` calls it."""

    def __init__(self, call):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.call = call

    def forward(self, ids, attention_mask=None):
        x = self.words(ids)
        return self.head(x + self.call(self.attention, x, ids, attention_mask)[0])


def heads_pair(name, kind, inputs, good, **others):
    def note(bad):
        PAIRS.append(Pair(name, kind, lambda: Heads(bad), lambda: Heads(good), inputs, bad, **others))
        return bad

    return note


def near(x):
    places = torch.arange(PLACES, device=x.device)
    return (places[:, None] - places[None, :]).abs() > 2


@heads_pair(
    "is_causal in the place of a window",
    "overridden",
    ids_only,
    lambda a, x, i, m: a(x, x, x, attn_mask=near(x)),
    on_meta=False,
    trains=True,
)
def causal_in_its_place(attention, x, ids, mask):
    return attention(x, x, x, attn_mask=near(x), is_causal=True, need_weights=False)  # bug


@heads_pair(
    "torch's heads told what are words", "inverted", ids_only, lambda a, x, i, m: a(x, x, x, key_padding_mask=i == PAD)
)
def heads_told_words(attention, x, ids, mask):
    return attention(x, x, x, key_padding_mask=ids != PAD)


@heads_pair(
    "a weak float mask in torch's heads", "weak", padded, lambda a, x, i, m: a(x, x, x, key_padding_mask=m == 0)
)
def weak_in_heads(attention, x, ids, mask):
    return attention(x, x, x, key_padding_mask=(1.0 - mask) * -2.0)


class Translator(nn.Module):
    """torch's encoder and decoder; `read` is told the decoder, what it reads and where the padding of that is."""

    def __init__(self, read):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, 16, batch_first=True), 2)
        self.read = read

    def forward(self, ids, src_padding_mask):
        memory = self.encoder(self.words(ids), src_key_padding_mask=src_padding_mask)
        return self.head(self.read(self.decoder, self.words(ids[:, :5]), memory, src_padding_mask))


def padded_words():
    return {"ids": words(), "src_padding_mask": words() == PAD}


def translator_pair(name, kind, good, **others):
    def note(bad):
        PAIRS.append(Pair(name, kind, lambda: Translator(bad), lambda: Translator(good), padded_words, bad, **others))
        return bad

    return note


def behind(length, diagonal, device):
    return torch.full((length, length), float("-inf"), device=device).triu(diagonal)


def read_well(decoder, x, memory, mask):
    return decoder(x, memory, tgt_mask=behind(5, 1, x.device), memory_key_padding_mask=mask)


@translator_pair("a decoder that reads the padding of the encoder", "some layers", read_well, on_meta=False)
def reads_padding(decoder, x, memory, mask):
    return decoder(x, memory, tgt_mask=behind(5, 1, x.device))


@translator_pair("a decoder whose words do not see themselves", "blind", read_well, on_meta=False)
def blind_to_themselves(decoder, x, memory, mask):
    return decoder(x, memory, tgt_mask=behind(5, 0, x.device), memory_key_padding_mask=mask)


def for_each_head(a, x, i, m):
    hidden = (m == 0)[:, None, :].expand(-1, PLACES, -1).repeat_interleave(HEADS, 0)
    return a(x, x, x, attn_mask=hidden, need_weights=False)


@heads_pair("masks repeated for heads in the wrong order", "axis", padded, for_each_head, on_meta=False)
def in_the_wrong_order(attention, x, ids, mask):
    hidden = (mask == 0)[:, None, :].expand(-1, PLACES, -1).repeat(HEADS, 1, 1)
    return attention(x, x, x, attn_mask=hidden, need_weights=False)


def for_each_head_and_weights(a, x, i, m):
    return a(x, x, x, attn_mask=(m == 0)[:, None, :].expand(-1, PLACES, -1).repeat_interleave(HEADS, 0))


@heads_pair(
    "masks in the wrong order where weights are asked for",
    "axis",
    padded,
    for_each_head_and_weights,
    on_meta=False,
    trains=True,
)
def in_the_wrong_order_with_weights(attention, x, ids, mask):
    return attention(x, x, x, attn_mask=(mask == 0)[:, None, :].expand(-1, PLACES, -1).repeat(HEADS, 1, 1))
