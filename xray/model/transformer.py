"""The encoder-decoder transformer, whole."""

from collections.abc import Sequence
from math import sqrt

from torch import Tensor, nn

from xray.config import PAD, ModelConfig
from xray.model.cache import LayerCache, NewestRow, NewestWord
from xray.model.embeddings import WordsAndPlaces
from xray.model.layers import DecoderLayer, EncoderLayer
from xray.model.masks import PaddingMask, TargetMask


class Encoder(nn.Module):
    """The question read once, every word in the light of all the others: the memory that the decoder looks at.

    Shapes:
        src:  (batch, src_len)
        mask: (batch, 1, 1, src_len)
        out:  (batch, src_len, d_model)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = WordsAndPlaces(config.src_vocab, config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "before" else None

    def forward(self, src: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(src)  # (batch, src_len, d_model)
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """The answer so far, every word in the light of those before it and of the question.

    The encoder's memory goes into every layer, as keys and values of its cross-attention.

    Shapes:
        tgt:        (batch, tgt_len)
        memory:     (batch, src_len, d_model)
        self_mask:  (batch, 1, tgt_len, tgt_len)
        cross_mask: (batch, 1, 1, src_len) or None
        out:        (batch, tgt_len, d_model)

    With a cache, tgt holds only the words that it has not seen; the first of them stands at place `start`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = WordsAndPlaces(config.tgt_vocab, config)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "before" else None

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        self_mask: Tensor,
        cross_mask: Tensor | None,
        cache: Sequence[LayerCache] | None = None,
        start: int = 0,
    ) -> Tensor:
        x = self.embedding(tgt, start)  # (batch, tgt_len, d_model)
        for number, layer in enumerate(self.layers):
            x = layer(x, memory, self_mask, cross_mask, None if cache is None else cache[number])
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Questions and the answers so far in, a score for every word of the vocabulary at every place out.

    `forward` is a training step's way through; inference calls `encode` once, and for every new word `decode`, or
    `decode_next` with a cache.

    Shapes:
        src: (batch, src_len)
        tgt: (batch, tgt_len)
        out: (batch, tgt_len, tgt_vocab)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.src_mask = PaddingMask()
        self.tgt_mask = TargetMask()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.head = nn.Linear(config.d_model, config.tgt_vocab)
        self.newest_word = NewestWord()
        self.newest_row = NewestRow()
        self.initialise()
        if config.sharing != "none":
            self.head.weight = self.decoder.embedding.words.weight
        if config.sharing == "all":
            self.encoder.embedding.words.weight = self.decoder.embedding.words.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, src_mask = self.encode(src)
        return self.decode(tgt, memory, src_mask)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (batch, src_len, d_model) of a question, and its padding mask (batch, 1, 1, src_len)."""
        mask = self.src_mask(src)
        return self.encoder(src, mask), mask

    def decode(self, tgt: Tensor, memory: Tensor, src_mask: Tensor) -> Tensor:
        """The logits (batch, tgt_len, tgt_vocab) for the word after each of `tgt`."""
        cross_mask = src_mask if self.config.cross_mask == "padding" else None
        x = self.decoder(tgt, memory, self.tgt_mask(tgt), cross_mask)  # (batch, tgt_len, d_model)
        return self.head(x)  # type: ignore[no-any-return]

    def decode_next(self, tgt: Tensor, memory: Tensor, src_mask: Tensor, cache: Sequence[LayerCache]) -> Tensor:
        """The logits (batch, 1, tgt_vocab) for the word after the last of `tgt`; all before it are in the cache.

        Shapes:
            tgt: (batch, tgt_len)
        """
        cross_mask = src_mask if self.config.cross_mask == "padding" else None
        self_mask = self.newest_row(self.tgt_mask(tgt))  # (batch, 1, 1, tgt_len)
        newest = self.newest_word(tgt)  # (batch, 1)
        x = self.decoder(newest, memory, self_mask, cross_mask, cache, tgt.shape[1] - 1)  # (batch, 1, d_model)
        return self.head(x)  # type: ignore[no-any-return]

    def make_cache(self) -> tuple[LayerCache, ...]:
        """An empty cache, one part for each decoder layer."""
        return tuple(LayerCache() for _ in self.decoder.layers)

    def initialise(self) -> None:
        """Xavier for matrices, zero for biases; embeddings that have variance 1 once scaled by sqrt(d_model)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                std = 1 / sqrt(self.config.d_model) if self.config.scale_embeddings else 1.0
                nn.init.normal_(module.weight, std=std)
                nn.init.zeros_(module.weight[PAD])
