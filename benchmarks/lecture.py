"""The lecture's training, written straightforwardly: every text padded to the longest, tokenised in the loop, unfused.

It follows background lectures on the transformer step by step: a Dataset that tokenises and pads each item, masks made
item by item, attention by matmul and softmax, layer normalisation by hand, Adam with one learning rate.
"""

import math
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from xray.config import EOS, PAD, SOS, ModelConfig
from xray.data.pairs import Pair


class Norm(nn.Module):
    """Layer normalisation by hand."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(dim=-1, keepdim=True), x.std(dim=-1, keepdim=True)
        return self.alpha * (x - mean) / (std + 1e-6) + self.bias


class Attention(nn.Module):
    """Multi-head attention, every stage of it written out."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.d_k = heads, width // heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            layer(x).view(x.shape[0], x.shape[1], self.heads, self.d_k).transpose(1, 2)
            for layer, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        scores = (query @ key.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores = scores.masked_fill(mask == 0, -1e9).softmax(dim=-1)
        x = self.dropout(scores) @ value
        return self.w_o(x.transpose(1, 2).contiguous().view(x.shape[0], -1, self.heads * self.d_k))


class Residual(nn.Module):
    """A sublayer between a norm and a sum."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = Norm(width), nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Any) -> Tensor:  # noqa: ANN401
        return x + self.dropout(sublayer(self.norm(x)))


class Layer(nn.Module):
    """An encoder layer, or with `cross` a decoder layer."""

    def __init__(self, config: ModelConfig, cross: bool) -> None:
        super().__init__()
        width, dropout = config.d_model, config.dropout
        self.attention = Attention(width, config.heads, dropout)
        self.cross = Attention(width, config.heads, dropout) if cross else None
        self.feed = nn.Sequential(
            nn.Linear(width, config.d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(config.d_ff, width)
        )
        self.residuals = nn.ModuleList(Residual(width, dropout) for _ in range(3 if cross else 2))

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, src_mask: Tensor | None = None) -> Tensor:
        x = self.residuals[0](x, lambda y: self.attention(y, y, y, mask))
        if self.cross is not None:
            x = self.residuals[1](x, lambda y: self.cross(y, memory, memory, src_mask))
        return self.residuals[-1](x, self.feed)


class LectureTransformer(nn.Module):
    """Encoder, decoder, projection."""

    def __init__(self, config: ModelConfig, length: int) -> None:
        super().__init__()
        self.width = config.d_model
        self.src, self.tgt = nn.Embedding(config.src_vocab, self.width), nn.Embedding(config.tgt_vocab, self.width)
        place = torch.arange(length).float()[:, None]
        rate = torch.exp(torch.arange(0, self.width, 2).float() * (-math.log(10000.0) / self.width))
        table = torch.zeros(length, self.width)
        table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table[None])
        self.encoder = nn.ModuleList(Layer(config, False) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(Layer(config, True) for _ in range(config.decoder_layers))
        self.encoder_norm, self.decoder_norm = Norm(self.width), Norm(self.width)
        self.projection = nn.Linear(self.width, config.tgt_vocab)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def encode(self, src: Tensor, mask: Tensor) -> Tensor:
        x = self.src(src) * math.sqrt(self.width) + self.table[:, : src.shape[1]]
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def decode(self, memory: Tensor, src_mask: Tensor, tgt: Tensor, mask: Tensor) -> Tensor:
        x = self.tgt(tgt) * math.sqrt(self.width) + self.table[:, : tgt.shape[1]]
        for layer in self.decoder:
            x = layer(x, mask, memory, src_mask)
        return self.projection(self.decoder_norm(x))


def causal_mask(length: int) -> Tensor:
    """True on and below the diagonal."""
    return torch.triu(torch.ones(1, length, length), diagonal=1).type(torch.int) == 0


class PaddedPairs(Dataset[dict[str, Tensor]]):
    """Every item tokenised, padded to the longest and masked when it is asked for."""

    def __init__(self, pairs: list[Pair], src: Tokenizer, tgt: Tokenizer, length: int) -> None:
        self.pairs, self.src, self.tgt, self.length = pairs, src, tgt, length

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        asked = self.src.encode(self.pairs[number].question).ids
        said = self.tgt.encode(self.pairs[number].answer).ids
        ends = {"sos": torch.tensor([SOS]), "eos": torch.tensor([EOS])}
        encoder_input = torch.cat([torch.tensor(asked), torch.full((self.length - len(asked),), PAD)])
        padding = torch.full((self.length - len(said) - 1,), PAD)
        decoder_input = torch.cat([ends["sos"], torch.tensor(said), padding])
        label = torch.cat([torch.tensor(said), ends["eos"], padding])
        return {
            "encoder_input": encoder_input,
            "decoder_input": decoder_input,
            "encoder_mask": (encoder_input != PAD)[None, None].int(),
            "decoder_mask": (decoder_input != PAD)[None].int() & causal_mask(self.length),
            "label": label,
        }


class LectureLoop:
    """The model, its data and its steps."""

    def __init__(self, config: ModelConfig, data: PaddedPairs, batch: int, rate: float, device: str) -> None:
        self.model = LectureTransformer(config, data.length).to(device).train()
        self.loader = DataLoader(data, batch_size=batch, shuffle=True)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=rate, eps=1e-9)
        self.loss = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
        self.device = device
        self.batches = iter(self.loader)

    def step(self) -> None:
        """One batch; a new epoch begins where one ends."""
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        logits, label = self.forward(batch)
        loss = self.loss(logits.view(-1, logits.shape[-1]), label.view(-1))
        _ = f"{loss.item():6.3f}"  # the lecture shows the loss of every step
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The logits of a batch, and what they should be."""
        src, tgt = batch["encoder_input"].to(self.device), batch["decoder_input"].to(self.device)
        src_mask, mask = batch["encoder_mask"].to(self.device), batch["decoder_mask"].to(self.device)
        memory = self.model.encode(src, src_mask)
        return self.model.decode(memory, src_mask, tgt, mask), batch["label"].to(self.device)
