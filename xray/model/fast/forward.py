"""The forward pass of training, on packed weights: the same numbers as the readable model's, in a third of the calls.

What it leaves out changes no loss and no gradient. The decoder needs no padding mask, since padding stands behind the
words and what is behind is hidden already; what it says at padded places is not judged.
"""

from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional

from xray.config import PAD
from xray.model.fast.loss import judge_answers
from xray.model.fast.sharded_weights import Weights
from xray.model.masks import hiding_value


class FastForward:
    """Questions and the answers so far in, logits out, as `Transformer.forward`; dropout as in training, if wanted.

    Shapes:
        src: (batch, src_len)
        tgt: (batch, tgt_len)
        out: (batch, tgt_len, tgt_vocab)
    """

    def __init__(self, weights: Weights) -> None:
        model = weights.model
        self.model = model
        self.config = model.config
        self.leaves = weights.leaves
        self.inside = weights.inside
        self.places = [one.embedding.positions.table.to(weights.device) for one in (model.encoder, model.decoder)]
        self.norm_first = model.config.norm == "before"

    def __call__(self, src: Tensor, tgt: Tensor) -> Tensor:
        return functional.linear(self.states(src, tgt), self.head_weight(), self.leaves["head.bias"])

    def states(self, src: Tensor, tgt: Tensor) -> Tensor:
        """What the output layer reads.

        Shapes:
            out: (batch, tgt_len, d_model)
        """
        padding = self.hide_padding(src)
        memory = self.encode(src, padding)  # (batch, src_len, d_model)
        hidden = padding if self.config.cross_mask == "padding" else None
        x = self.embed("decoder", tgt)  # (batch, tgt_len, d_model)
        both = self.linear("memory", memory)  # (batch, src_len, 2 * layers * d_model)
        layers = len(self.model.decoder.layers)
        if layers:
            keys_values = self.split(both, 2 * layers)  # of (batch, heads, src_len, d_k) each
        for number in range(layers):
            path = f"decoder.layers.{number}"
            key, value = keys_values[2 * number : 2 * number + 2]
            x = self.inside(path, self.decode_in_layer, path, x, key, value, hidden)
        return self.normalise("decoder.norm", x) if self.norm_first else x

    def loss(self, states: Tensor, targets: Tensor, label_smoothing: float, number_type: torch.dtype) -> Tensor:
        """How wrong the guesses made of these states are; see `judge_answers`."""
        bias = self.leaves["head.bias"]
        return judge_answers(states, self.head_weight(), bias, targets, label_smoothing, number_type)

    def encode(self, src: Tensor, hidden: Tensor | None) -> Tensor:
        """The memory of the questions."""
        x = self.embed("encoder", src)
        for number in range(len(self.model.encoder.layers)):
            path = f"encoder.layers.{number}"
            x = self.inside(path, self.encode_in_layer, path, x, hidden)
        return self.normalise("encoder.norm", x) if self.norm_first else x

    def encode_in_layer(self, path: str, x: Tensor, hidden: Tensor | None) -> Tensor:
        """What an encoder layer makes of x."""
        return self.add_feed_forward(path, self.add_self_attention(path, x, hidden, causal=False))

    def decode_in_layer(self, path: str, x: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor:
        """What a decoder layer makes of x and of the memory's keys and values."""
        x = self.add_self_attention(path, x, None, causal=True)
        entry = self.enter(f"{path}.cross_attention", x)
        (query,) = self.split(self.linear(f"{path}.cross_attention.query", entry), 1)
        attended = self.attend(f"{path}.cross_attention", query, key, value, hidden, causal=False)
        return self.add_feed_forward(path, self.leave(f"{path}.cross_attention", x, attended))

    def embed(self, side: str, ids: Tensor) -> Tensor:
        """Words and places."""
        words = functional.embedding(ids, self.embedding_weight(side), padding_idx=PAD)
        if self.config.scale_embeddings:
            words = words * sqrt(self.config.d_model)
        return self.drop(words + self.places[side == "decoder"][:, : ids.shape[1]])

    def add_self_attention(self, path: str, x: Tensor, hidden: Tensor | None, causal: bool) -> Tensor:
        """x, and what every word has gathered from the others."""
        entry = self.enter(f"{path}.self_attention", x)
        query, key, value = self.split(self.linear(f"{path}.self_attention.qkv", entry), 3)
        attended = self.attend(f"{path}.self_attention", query, key, value, hidden, causal)
        return self.leave(f"{path}.self_attention", x, attended)

    def add_feed_forward(self, path: str, x: Tensor) -> Tensor:
        """x, and what every word makes of itself."""
        inner = functional.relu(self.linear(f"{path}.feed_forward.expand", self.enter(f"{path}.feed_forward", x)))
        return self.leave(f"{path}.feed_forward", x, self.linear(f"{path}.feed_forward.contract", inner))

    def attend(
        self, path: str, query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None, causal: bool
    ) -> Tensor:
        """The heads' answers, joined: (batch, queries, d_model)."""
        dropout = self.config.dropout if self.model.training else 0.0
        heads = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=hidden, dropout_p=dropout, is_causal=causal
        )  # (batch, heads, queries, d_k)
        return self.linear(f"{path}.output", heads.transpose(1, 2).flatten(2))

    def enter(self, path: str, x: Tensor) -> Tensor:
        """What a sublayer reads."""
        return self.normalise(f"{path}_norm", x) if self.norm_first else x

    def leave(self, path: str, x: Tensor, made: Tensor) -> Tensor:
        """The residual sum behind a sublayer."""
        x = x + self.drop(made)
        return x if self.norm_first else self.normalise(f"{path}_norm", x)

    def split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """The parts of the last axis, each cut into heads: (batch, heads, len, d_k)."""
        batch, length, _ = x.shape
        return x.view(batch, length, parts, self.config.heads, self.config.d_k).permute(2, 0, 3, 1, 4).unbind(0)

    def linear(self, path: str, x: Tensor) -> Tensor:
        """A linear layer by its path."""
        return functional.linear(x, self.leaves[f"{path}.weight"], self.leaves[f"{path}.bias"])

    def normalise(self, path: str, x: Tensor) -> Tensor:
        """Layer normalisation by its path."""
        return functional.layer_norm(
            x, (self.config.d_model,), self.leaves[f"{path}.weight"], self.leaves[f"{path}.bias"]
        )

    def drop(self, x: Tensor) -> Tensor:
        """Dropout while training."""
        return functional.dropout(x, self.config.dropout) if self.config.dropout and self.model.training else x

    def hide_padding(self, src: Tensor) -> Tensor | None:
        """What is added to the scores of padded keys, (batch, 1, 1, src_len); None on the CPU where there are none."""
        hidden = src == PAD
        if src.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(hidden.any()):
            return None
        kind = src.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32
        scores = torch.zeros(src.shape, dtype=dtype, device=src.device)
        return scores.masked_fill(hidden, hiding_value(self.config.mask_value, dtype))[:, None, None]

    def head_weight(self) -> Tensor:
        """The matrix of the output layer, which may be that of the decoder's embedding."""
        return self.leaves["head.weight"] if "head.weight" in self.leaves else self.embedding_weight("decoder")

    def embedding_weight(self, side: str) -> Tensor:
        """The matrix of an embedding; where all share one it is found under the encoder's name."""
        name = f"{side}.embedding.words.weight"
        return self.leaves[name] if name in self.leaves else self.leaves["encoder.embedding.words.weight"]
