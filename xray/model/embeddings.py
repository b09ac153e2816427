"""From ids to vectors that know their word and their place."""

from math import log, sqrt

import torch
from torch import Tensor, nn

from xray.config import PAD, ModelConfig
from xray.model.arithmetic import Add, Scale


class Positions(nn.Module):
    """Sines and cosines of falling frequency, one row for each place in the sequence (the paper, section 3.5).

    Shapes:
        ids: (batch, len)    the first of them at place `start`
        out: (1, len, d_model)
    """

    table: Tensor

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        place = torch.arange(max_len, dtype=torch.float32)[:, None]
        frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float32) * (-log(10_000.0) / d_model))
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = torch.sin(place * frequency)
        table[:, 1::2] = torch.cos(place * frequency)[:, : d_model // 2]
        self.register_buffer("table", table[None], persistent=False)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        return self.table[:, start : start + ids.shape[1]]


class WordsAndPlaces(nn.Module):
    """Each id looked up as a vector, scaled, and given its position.

    Shapes:
        ids: (batch, len)    the first of them at place `start`
        out: (batch, len, d_model)
    """

    operation = "embed"

    def __init__(self, vocab: int, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, config.d_model, padding_idx=PAD)
        self.scale = Scale("sqrt(d_model)", sqrt(config.d_model)) if config.scale_embeddings else None
        self.positions = Positions(config.d_model, config.max_len)
        self.add = Add()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        words = self.words(ids)  # (batch, len, d_model)
        if self.scale is not None:
            words = self.scale(words)
        return self.dropout(self.add(words, self.positions(ids, start)))  # type: ignore[no-any-return]
