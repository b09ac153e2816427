"""A recurrent tagger, from before attention. See inside it: xray trace examples/lstm.py:build -o lstm.svg"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    """Ids of words in, read in both directions; a score of each tag for each word out."""

    def __init__(self, vocab: int = 100, width: int = 16, hidden: int = 24, tags: int = 5) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.tag = nn.Linear(2 * hidden, tags)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        read, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(read, batch_first=True)
        return self.tag(out)


def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model, and two sentences of seven and four words."""
    torch.manual_seed(0)
    ids = torch.tensor([[11, 12, 13, 14, 15, 16, 17], [21, 22, 23, 24, 0, 0, 0]])
    return Tagger().eval(), (ids, torch.tensor([7, 4]))
