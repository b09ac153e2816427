"""Greedy decoding: the likeliest word again and again, until the model says that the answer is over."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from xray.config import EOS, PAD, SOS
from xray.data.batches import pad
from xray.learn.threads import fitting_threads
from xray.model.choosing import AppendWord, NextWord
from xray.model.transformer import Transformer


@torch.inference_mode()
def decode_greedily(model: Transformer, src: Tensor, longest: int | None = None) -> list[tuple[int, ...]]:
    """The ids of the answer to each question, without `<sos>` and `<eos>`, cut at `longest` words.

    A cache of keys and values makes each word cost one row and not a square. Answers that are over wait, as padding,
    for the others.

    Shapes:
        src: (batch, src_len)
    """
    longest = min(longest or model.config.max_len - 1, model.config.max_len - 1)
    next_word, append = NextWord(), AppendWord()
    with evaluation(model), fitting_threads(model.config):
        memory, src_mask = model.encode(src)
        cache = model.make_cache()
        answer = torch.full((src.shape[0], 1), SOS, device=src.device)  # (batch, 1)
        over = torch.zeros(src.shape[0], 1, dtype=torch.bool, device=src.device)
        for _ in range(longest + 1):
            word = next_word(model.decode_next(answer, memory, src_mask, cache)).masked_fill(over, PAD)  # (batch, 1)
            over = over | (word == EOS)
            answer = append(answer, word)  # (batch, tgt_len + 1)
            if answer.shape[1] > model.config.max_len or bool(over.all()):
                break
    return [cut_answer(row[1:], longest) for row in answer.tolist()]


@dataclass(frozen=True)
class Guess:
    """What the model thinks comes next: ids with their probabilities, the likeliest first, which is the one it says."""

    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


@torch.inference_mode()
def guess_words(model: Transformer, src: Tensor, rivals: int = 3) -> tuple[Guess, ...]:
    """The greedy answer to one question, `<eos>` included, each word with the `rivals` that it beat.

    Shapes:
        src: (1, src_len)
    """
    said = decode_greedily(model, src)[0]
    answer = torch.tensor([[SOS, *said]], device=src.device)  # (1, tgt_len)
    with evaluation(model), fitting_threads(model.config):
        logits = model(src, answer)[0]  # (tgt_len, tgt_vocab)
        likely = torch.softmax(logits, dim=-1).topk(min(rivals + 1, logits.shape[-1]))
    pairs = zip(likely.indices.tolist(), likely.values.tolist(), strict=True)
    return tuple(Guess(tuple(ids), tuple(shares)) for ids, shares in pairs)


def answer_all(
    model: Transformer, questions: Sequence[Tensor], device: torch.device, longest: int | None = None, batch: int = 256
) -> list[tuple[int, ...]]:
    """The answer to each question, decoded many at a time, cut at `longest` words."""
    answers = []
    for start in range(0, len(questions), batch):
        answers += decode_greedily(model, pad(questions[start : start + batch]).to(device), longest)
    return answers


def cut_answer(ids: list[int], longest: int) -> tuple[int, ...]:
    """The ids before `<eos>`, or the first `longest` of an answer that found no end."""
    return tuple(ids[: ids.index(EOS)] if EOS in ids else ids[:longest])


@contextmanager
def evaluation(model: Transformer) -> Iterator[None]:
    """Inside the block the model is in evaluation, without dropout; afterwards it is as before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
