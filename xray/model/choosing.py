"""What stands after the model at inference: from the logits of all places to the one new word."""

import torch
from torch import Tensor, nn

from xray.model.arithmetic import Softmax


class LastRow(nn.Module):
    """The logits at the last place only: the earlier ones guess words that are already there.

    Shapes:
        logits: (batch, tgt_len, tgt_vocab)
        out:    (batch, tgt_vocab)
    """

    def forward(self, logits: Tensor) -> Tensor:
        return logits[:, -1]


class Argmax(nn.Module):
    """The id with the largest probability: the greedy choice.

    Shapes:
        probabilities: (batch, tgt_vocab)
        out:           (batch, 1)
    """

    def forward(self, probabilities: Tensor) -> Tensor:
        return probabilities.argmax(dim=-1, keepdim=True)


class NextWord(nn.Module):
    """Last row, softmax, argmax: the word that greedy decoding says next.

    Shapes:
        logits: (batch, tgt_len, tgt_vocab)
        out:    (batch, 1)
    """

    def __init__(self) -> None:
        super().__init__()
        self.last_row = LastRow()
        self.softmax = Softmax()
        self.argmax = Argmax()

    def forward(self, logits: Tensor) -> Tensor:
        return self.argmax(self.softmax(self.last_row(logits)))  # type: ignore[no-any-return]


class AppendWord(nn.Module):
    """The new word at the end of the answer so far; the decoder reads the longer answer next.

    Shapes:
        answer: (batch, tgt_len)
        word:   (batch, 1)
        out:    (batch, tgt_len + 1)
    """

    operation = "append"

    def forward(self, answer: Tensor, word: Tensor) -> Tensor:
        return torch.cat([answer, word], dim=1)
