"""Decoding: the likeliest word again and again, until the model says that the answer is over, or several beams."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from xray.config import EOS, PAD, SOS
from xray.data.batches import pad
from xray.errors import UsageError
from xray.learn.answers.beam import search_beams
from xray.learn.threads import fitting_threads
from xray.model.fast.speaker import Speaker, start_words
from xray.model.transformer import Transformer

LOOK_EVERY = (1, 8)
"""After how many words it is looked whether all answers are over: on the CPU, and where looking means waiting."""


MOST_BEAMS = 1000
"""No search follows more answers at once."""


@dataclass(frozen=True)
class Way:
    """How answers are found: greedily, or with several beams and a length penalty."""

    beam: int = 1
    length_penalty: float = 0.6

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise UsageError(f"beam={self.beam} is too small. It must be 1 or more; 1 is greedy.")
        if self.beam > MOST_BEAMS:
            raise UsageError(f"beam={self.beam:.3g} is out of range. It must be at most {MOST_BEAMS:,}; 4 is usual.")
        if not 0.0 <= self.length_penalty <= 5.0:
            raise UsageError(f"length_penalty={self.length_penalty} is out of range. It must be between 0 and 5.")

    def decode(self, model: Transformer, src: Tensor, longest: int | None = None) -> list[tuple[int, ...]]:
        """The ids of the answer to each question (batch, src_len)."""
        if self.beam == 1:
            return decode_greedily(model, src, longest)
        return decode_with_beams(model, src, self.beam, self.length_penalty, longest)


GREEDY = Way()


@torch.inference_mode()
def decode_greedily(model: Transformer, src: Tensor, longest: int | None = None) -> list[tuple[int, ...]]:
    """The ids of the answer to each question, without `<sos>` and `<eos>`, cut at `longest` words.

    A cache of keys and values makes each word cost one row and not a square. Answers that are over wait for the
    others, until they are half of all and leave the batch.

    Shapes:
        src: (batch, src_len)
    """
    longest = most_words(model, longest)
    said = torch.full((src.shape[0], longest), PAD, device=src.device)  # (batch, longest)
    with evaluation(model), fitting_threads(model.config):
        speaker = Speaker(model, src)
        word = start_words(src, SOS)  # (batch, 1)
        rows = torch.arange(src.shape[0], device=src.device)
        over = torch.zeros(src.shape[0], dtype=torch.bool, device=src.device)
        for place in range(longest):
            word = speaker.hear(word).argmax(dim=-1, keepdim=True)  # (batch, 1)
            said[rows, place] = word[:, 0]
            over = over | (word[:, 0] == EOS)
            if place % LOOK_EVERY[src.device.type != "cpu"] == 0:
                left = (~over).nonzero()[:, 0]
                if not len(left):
                    break
                if 2 * len(left) <= len(rows):
                    speaker.keep(left)
                    rows, word, over = rows[left], word[left], over[left]
    return [cut_answer(row, longest) for row in said.tolist()]


@torch.inference_mode()
def decode_with_beams(
    model: Transformer, src: Tensor, beam: int, penalty: float, longest: int | None = None
) -> list[tuple[int, ...]]:
    """The ids of the likeliest answer to each question that a beam search finds; see `search_beams`.

    Shapes:
        src: (batch, src_len)
    """
    with evaluation(model), fitting_threads(model.config):
        return search_beams(model, src, most_words(model, longest), beam, penalty)


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
    model: Transformer,
    questions: Sequence[Tensor],
    device: torch.device,
    longest: int | None = None,
    batch: int = 256,
    way: Way = GREEDY,
) -> list[tuple[int, ...]]:
    """The answer to each question, decoded many at a time, cut at `longest` words; those of like length together."""
    order = sorted(range(len(questions)), key=lambda number: len(questions[number]))
    answers: list[tuple[int, ...]] = [()] * len(questions)
    for start in range(0, len(order), batch):
        numbers = order[start : start + batch]
        src = pad([questions[number] for number in numbers]).to(device)
        for number, ids in zip(numbers, way.decode(model, src, longest), strict=True):
            answers[number] = ids
    return answers


def most_words(model: Transformer, longest: int | None) -> int:
    """How long an answer may become: as was asked for, as far as the model has places for it."""
    return min(longest or model.config.max_len - 1, model.config.max_len - 1)


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
