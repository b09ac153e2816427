"""The output layer and the loss as one step, in blocks: the scores of all words never stand in memory at once.

The same number as that of `Transformer.head` and `AnswerLoss`. Its gradients are made on the way, while the scores of a
block are at hand: with 30,000 words and 2,800 places those would be 336 MB, gone through eight times.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from xray.config import PAD

BLOCK = 1 << 23
"""How many scores are in memory at a time."""

FEW = 1 << 18
"""So many scores are sooner judged in one piece: then calls are all that costs."""


def judge_answers(
    states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float, number_type: torch.dtype
) -> Tensor:
    """The mean cross entropy of all guesses whose target is no padding; products are computed in `number_type`.

    Shapes:
        states:  (batch, tgt_len, d_model)
        weight:  (tgt_vocab, d_model)
        bias:    (tgt_vocab)
        targets: (batch, tgt_len)
        out:     ()
    """
    with torch.autocast(states.device.type, enabled=False):
        if targets.numel() * len(weight) <= FEW:
            scores = functional.linear(states.to(number_type), weight.to(number_type), bias.to(number_type)).float()
            return functional.cross_entropy(
                scores.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=label_smoothing
            )
        loss: Tensor = JudgedInBlocks.apply(  # type: ignore[no-untyped-call]
            states.flatten(0, 1), weight, bias, targets.flatten(), label_smoothing, number_type
        )
    return loss


class JudgedInBlocks(torch.autograd.Function):
    """Loss and gradients in one go."""

    @staticmethod
    def forward(
        context: Any,  # noqa: ANN401  # torch's
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        number_type: torch.dtype,
    ) -> Tensor:
        counts = (targets != PAD).float()
        shares = counts / counts.sum()  # (places), what each adds to the mean
        vocab = len(weight)
        matrix, rows = weight.to(number_type), states.to(number_type)
        wanted = any(context.needs_input_grad)
        state_slope, weight_slope, bias_slope = (
            torch.empty_like(states),
            torch.empty_like(weight),
            torch.zeros_like(bias),
        )
        loss = shares.new_zeros(())
        size = max(1, BLOCK // vocab)
        for start in range(0, len(states), size):
            block = slice(start, start + size)
            share, target = shares[block], targets[block, None]
            scores = torch.mm(rows[block], matrix.t()).float().add_(bias)
            chances = torch.log_softmax(scores, dim=1)
            right = chances.gather(1, target)[:, 0]
            loss -= (1 - smoothing) * torch.dot(right, share)
            if smoothing:
                loss -= smoothing / vocab * torch.dot(chances.sum(1), share)
            if not wanted:
                continue
            pull = chances.exp_()
            if smoothing:
                pull.sub_(smoothing / vocab)
            pull.scatter_add_(1, target, pull.new_full(target.shape, smoothing - 1))
            pull.mul_(share[:, None])
            keep = float(start > 0)  # what was added before, if anything
            bias_slope += pull.sum(0)
            pull = pull.to(number_type)
            state_slope[block] = torch.mm(pull, matrix)
            if number_type is weight.dtype:
                torch.addmm(weight_slope, pull.t(), rows[block], beta=keep, out=weight_slope)
            else:
                made = torch.mm(pull.t(), rows[block])
                weight_slope.add_(made) if keep else weight_slope.copy_(made)
        context.save_for_backward(state_slope, weight_slope, bias_slope)
        return loss

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        made: tuple[Tensor, ...] = context.saved_tensors
        if slope.device.type != "cpu" or float(slope) != 1.0:
            made = tuple(one * slope for one in made)
        return *made, None, None, None
