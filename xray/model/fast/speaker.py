"""Answers being said: the questions read once, then word after word at the price of one row each.

The same numbers as the readable model's with its cache, in a third of the calls: for one word of a small model, calls
are all that costs.
"""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

from xray.config import ModelConfig
from xray.model.attention import MultiHeadAttention
from xray.model.layers import DecoderLayer
from xray.model.masks import hiding_value
from xray.model.transformer import Transformer

PLACES = 16
"""How many words there is room for at first; the room doubles when it is full."""


class Speaker:
    """A batch of answers on their way; what the decoder has computed of them is kept.

    No mask is needed for the answers: what is kept lies behind, and none of it is padding.

    Shapes:
        src: (batch, src_len)
    """

    def __init__(self, model: Transformer, src: Tensor) -> None:
        self.model = model
        config = model.config
        memory, mask = model.encode(src)  # (batch, src_len, d_model), (batch, 1, 1, src_len)
        hidden = None
        if config.cross_mask == "padding" and not bool(mask.all()):
            hidden = torch.zeros(mask.shape, dtype=memory.dtype, device=src.device)
            hidden.masked_fill_(~mask, hiding_value(config.mask_value, memory.dtype))
        self.mask: Tensor | None = hidden
        self.layers = [Voice(layer, config, memory) for layer in model.decoder.layers]  # type: ignore[arg-type]
        self.place = 0

    def hear(self, word: Tensor) -> Tensor:
        """The logits for the word that follows this one.

        Shapes:
            word: (batch, 1)
            out:  (batch, tgt_vocab)
        """
        embedding, norm, head = self.model.decoder.embedding, self.model.decoder.norm, self.model.head
        x = functional.embedding(word, embedding.words.weight)  # (batch, 1, d_model)
        if self.model.config.scale_embeddings:
            x = x * sqrt(self.model.config.d_model)
        x = x + embedding.positions.table[:, self.place : self.place + 1]
        for layer in self.layers:
            x = layer.speak(x, self.place, self.mask)
        self.place += 1
        x = x[:, 0] if norm is None else normalise(x[:, 0], norm)
        return functional.linear(x, head.weight, head.bias)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows of the batch only, in this order; a row may be taken several times."""
        self.mask = None if self.mask is None else self.mask.index_select(0, rows)
        for layer in self.layers:
            layer.keep(rows)


@dataclass
class Kept:
    """Keys and values, (batch, heads, places, d_k) each; there may be more places than are filled."""

    key: Tensor
    value: Tensor

    def put(self, place: int, key: Tensor, value: Tensor) -> None:
        """Fill a place, (batch, heads, d_k) each; where there is none, as many as there are are added."""
        if place == self.key.shape[2]:
            self.key = torch.cat([self.key, torch.empty_like(self.key)], dim=2)
            self.value = torch.cat([self.value, torch.empty_like(self.value)], dim=2)
        self.key[:, :, place], self.value[:, :, place] = key, value

    def keep(self, rows: Tensor) -> None:
        """Keep these rows of the batch."""
        self.key, self.value = self.key.index_select(0, rows), self.value.index_select(0, rows)


class Voice:
    """One decoder layer, saying one word at a time."""

    def __init__(self, layer: DecoderLayer, config: ModelConfig, memory: Tensor) -> None:
        self.layer, self.heads, self.d_k = layer, config.heads, config.d_k
        self.norm_first = config.norm == "before"
        three = [layer.self_attention.query, layer.self_attention.key, layer.self_attention.value]
        self.weight = torch.cat([one.weight for one in three])  # (3 * d_model, d_model)
        self.bias = torch.cat([one.bias for one in three])
        self.said = Kept(*(memory.new_empty(memory.shape[0], self.heads, PLACES, self.d_k) for _ in range(2)))
        cross = layer.cross_attention
        self.asked = Kept(*(self.split(plain(one, memory)).contiguous() for one in (cross.key, cross.value)))

    def speak(self, x: Tensor, place: int, mask: Tensor | None) -> Tensor:
        """What the layer makes of the word at a place, (batch, 1, d_model)."""
        layer = self.layer
        entry = normalise(x, layer.self_attention_norm) if self.norm_first else x
        three = functional.linear(entry, self.weight, self.bias).view(x.shape[0], 3, self.heads, self.d_k)
        query, key, value = three.unbind(1)  # (batch, heads, d_k)
        self.said.put(place, key, value)
        keys, values = self.said.key[:, :, : place + 1], self.said.value[:, :, : place + 1]
        x = self.leave(x, self.attend(layer.self_attention, query[:, :, None], keys, values), layer.self_attention_norm)

        entry = normalise(x, layer.cross_attention_norm) if self.norm_first else x
        query = plain(layer.cross_attention.query, entry).view(x.shape[0], self.heads, 1, self.d_k)
        attended = self.attend(layer.cross_attention, query, self.asked.key, self.asked.value, mask)
        x = self.leave(x, attended, layer.cross_attention_norm)

        entry = normalise(x, layer.feed_forward_norm) if self.norm_first else x
        inner = functional.relu(plain(layer.feed_forward.expand, entry))
        return self.leave(x, plain(layer.feed_forward.contract, inner), layer.feed_forward_norm)

    def attend(
        self, attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """What one query (batch, heads, 1, d_k) gathers, (batch, 1, d_model)."""
        heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)  # (batch, heads, 1, d_k)
        return plain(attention.output, heads.reshape(query.shape[0], 1, self.heads * self.d_k))

    def leave(self, x: Tensor, made: Tensor, norm: nn.LayerNorm) -> Tensor:
        """The residual sum behind a sublayer."""
        return x + made if self.norm_first else normalise(x + made, norm)

    def split(self, x: Tensor) -> Tensor:
        """The heads of (batch, len, d_model): (batch, heads, len, d_k)."""
        return x.view(x.shape[0], x.shape[1], self.heads, self.d_k).transpose(1, 2)

    def keep(self, rows: Tensor) -> None:
        """Keep these rows of the batch."""
        self.said.keep(rows)
        self.asked.keep(rows)


def plain(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear layer without the ceremony of a module's call."""
    return functional.linear(x, layer.weight, layer.bias)


def normalise(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Layer normalisation without the ceremony of a module's call."""
    return torch.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def start_words(src: Tensor, start: int) -> Tensor:
    """The first word that the decoder hears for each question, (batch, 1)."""
    return torch.full((src.shape[0], 1), start, device=src.device)
