"""What stands around the model in a training step: the shift before it, the loss after it."""

from typing import NamedTuple

from torch import Tensor, nn

from xray.config import PAD


class ShiftedAnswer(NamedTuple):
    """What the decoder reads, and what it shall say, place by place."""

    decoder_input: Tensor
    targets: Tensor


class ShiftAnswer(nn.Module):
    """An answer cut in two: all but its last id for the decoder to read, all but its first for it to predict.

    At every place the target is the next word of the input, which is what the decoder has to say there.

    Shapes:
        answer:        (batch, tgt_len + 1)
        decoder_input: (batch, tgt_len)
        targets:       (batch, tgt_len)
    """

    operation = "shift"

    def forward(self, answer: Tensor) -> ShiftedAnswer:
        return ShiftedAnswer(answer[:, :-1], answer[:, 1:])


class Flatten(nn.Module):
    """The first two axes as one, so that every place of every answer is one guess to be judged.

    Shapes:
        x:   (batch, tgt_len) or (batch, tgt_len, tgt_vocab)
        out: (batch * tgt_len) or (batch * tgt_len, tgt_vocab)
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1)


class AnswerLoss(nn.Module):
    """Cross entropy of every guess against its target, padding ignored: one number to make smaller.

    Label smoothing asks for a little less than certainty (the paper, section 5.4).

    Shapes:
        logits:  (batch, tgt_len, tgt_vocab)
        targets: (batch, tgt_len)
        out:     ()
    """

    operation = "loss"

    def __init__(self, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.flatten_logits = Flatten()
        self.flatten_targets = Flatten()
        self.cross_entropy = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=label_smoothing)

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return self.cross_entropy(self.flatten_logits(logits), self.flatten_targets(targets))  # type: ignore[no-any-return]
