"""`torch.nn.Transformer` with the sizes of the chatbot in an ordinary loop: ids made beforehand, batches padded."""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from xray.config import PAD, ModelConfig


class OrdinaryTransformer(nn.Module):
    """Embeddings, `nn.Transformer`, a linear layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.width = config.d_model
        self.src = nn.Embedding(config.src_vocab, self.width, padding_idx=PAD)
        self.tgt = nn.Embedding(config.tgt_vocab, self.width, padding_idx=PAD)
        self.places = nn.Embedding(config.max_len, self.width)
        self.transformer = nn.Transformer(
            d_model=config.d_model,
            nhead=config.heads,
            num_encoder_layers=config.encoder_layers,
            num_decoder_layers=config.decoder_layers,
            dim_feedforward=config.d_ff,
            dropout=config.dropout,
            batch_first=True,
        )
        self.head = nn.Linear(config.d_model, config.tgt_vocab)
        for parameter in self.transformer.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        for embedding in (self.src, self.tgt, self.places):
            nn.init.normal_(embedding.weight, std=1 / math.sqrt(self.width))

    def embed(self, words: nn.Embedding, ids: Tensor) -> Tensor:
        """Words and places."""
        places = self.places(torch.arange(ids.shape[1], device=ids.device))
        return words(ids) * math.sqrt(self.width) + places

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], device=tgt.device, dtype=torch.bool)
        out = self.transformer(
            self.embed(self.src, src),
            self.embed(self.tgt, tgt),
            tgt_mask=causal,
            src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD,
            tgt_is_causal=True,
        )
        return self.head(out)


def pad_pairs(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """A batch, as long as its longest pair."""
    src, tgt = zip(*pairs, strict=True)
    return tuple(pad_sequence(list(ids), batch_first=True, padding_value=PAD) for ids in (src, tgt))  # type: ignore[return-value]


class OrdinaryLoop:
    """The model, its data and its steps."""

    def __init__(
        self, config: ModelConfig, data: list[tuple[Tensor, Tensor]], batch: int, rate: float, device: str
    ) -> None:
        self.model = OrdinaryTransformer(config).to(device).train()
        self.loader = DataLoader(data, batch_size=batch, shuffle=True, collate_fn=pad_pairs)  # type: ignore[arg-type]
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
        self.loss = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.05)
        self.device = device
        self.batches = iter(self.loader)

    def step(self) -> None:
        """One batch; a new epoch begins where one ends."""
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        logits, targets = self.forward(batch)
        loss = self.loss(logits.flatten(0, 1), targets.flatten())
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimiser.step()

    def forward(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The logits of a batch, and what they should be."""
        src, tgt = (ids.to(self.device) for ids in batch)
        return self.model(src, tgt[:, :-1]), tgt[:, 1:]
