"""Encoder and decoder layers: attention and feed-forward, each inside a residual sum with layer normalisation.

Normalisation stands after the residual sum (the paper, section 3.1) or, with `norm="before"`, at the sublayer's entry.
`nn.LayerNorm` divides by the biased variance: by d_model, not by d_model - 1.
"""

from torch import Tensor, nn

from xray.config import ModelConfig
from xray.model.arithmetic import Add
from xray.model.attention import MultiHeadAttention
from xray.model.cache import LayerCache


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them, the same for every position (the paper, section 3.3).

    Shapes:
        x:   (batch, len, d_model)
        out: (batch, len, d_model)    by way of (batch, len, d_ff)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.expand = nn.Linear(config.d_model, config.d_ff)
        self.activation = nn.ReLU()
        self.contract = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x)))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; what comes out has the shape of what went in, so layers can be stacked.

    Shapes:
        x:    (batch, src_len, d_model)
        mask: (batch, 1, 1, src_len)
        out:  (batch, src_len, d_model)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm == "before"
        self.self_attention = MultiHeadAttention(config)
        self.self_attention_dropout = nn.Dropout(config.dropout)
        self.self_attention_add = Add()
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)
        self.feed_forward_dropout = nn.Dropout(config.dropout)
        self.feed_forward_add = Add()
        self.feed_forward_norm = nn.LayerNorm(config.d_model)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        entry = self.self_attention_norm(x) if self.norm_first else x
        attended = self.self_attention(entry, entry, entry, mask)
        x = self.self_attention_add(x, self.self_attention_dropout(attended))
        x = x if self.norm_first else self.self_attention_norm(x)

        entry = self.feed_forward_norm(x) if self.norm_first else x
        x = self.feed_forward_add(x, self.feed_forward_dropout(self.feed_forward(entry)))
        return x if self.norm_first else self.feed_forward_norm(x)


class DecoderLayer(nn.Module):
    """Self-attention that cannot look ahead, cross-attention to the encoder's memory, then feed-forward.

    Shapes:
        x:          (batch, tgt_len, d_model)
        memory:     (batch, src_len, d_model)
        self_mask:  (batch, 1, tgt_len, tgt_len)
        cross_mask: (batch, 1, 1, src_len) or None
        out:        (batch, tgt_len, d_model)

    With a cache, x holds only the words that it has not seen, and the masks only their rows.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_first = config.norm == "before"
        self.self_attention = MultiHeadAttention(config)
        self.self_attention_dropout = nn.Dropout(config.dropout)
        self.self_attention_add = Add()
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.cross_attention = MultiHeadAttention(config)
        self.cross_attention_dropout = nn.Dropout(config.dropout)
        self.cross_attention_add = Add()
        self.cross_attention_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)
        self.feed_forward_dropout = nn.Dropout(config.dropout)
        self.feed_forward_add = Add()
        self.feed_forward_norm = nn.LayerNorm(config.d_model)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        self_mask: Tensor,
        cross_mask: Tensor | None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        self_cache, cross_cache = (None, None) if cache is None else (cache.self_attention, cache.cross_attention)
        entry = self.self_attention_norm(x) if self.norm_first else x
        attended = self.self_attention(entry, entry, entry, self_mask, self_cache)
        x = self.self_attention_add(x, self.self_attention_dropout(attended))
        x = x if self.norm_first else self.self_attention_norm(x)

        entry = self.cross_attention_norm(x) if self.norm_first else x
        attended = self.cross_attention(entry, memory, memory, cross_mask, cross_cache)
        x = self.cross_attention_add(x, self.cross_attention_dropout(attended))
        x = x if self.norm_first else self.cross_attention_norm(x)

        entry = self.feed_forward_norm(x) if self.norm_first else x
        x = self.feed_forward_add(x, self.feed_forward_dropout(self.feed_forward(entry)))
        return x if self.norm_first else self.feed_forward_norm(x)
