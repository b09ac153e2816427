"""Pairs side by side as rectangles of ids, the short ones filled up with padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from xray.config import EOS, PAD, SOS, SPECIAL_TOKENS
from xray.data.pairs import Pair
from xray.data.tokeniser import split_text
from xray.data.tokenisers import Tokenisers


@dataclass(frozen=True)
class Batch:
    """Questions and answers as ids, and as words; a word that is unknown has id 0 but is still itself among the words.

    Shapes:
        src: (batch, src_len)
        tgt: (batch, tgt_len + 1)    <sos> words <eos>; the decoder reads tgt_len of them, all but the last
    """

    src: Tensor
    tgt: Tensor
    src_words: tuple[tuple[str, ...], ...]
    tgt_words: tuple[tuple[str, ...], ...]


def make_batch(pairs: Sequence[Pair], tokenisers: Tokenisers, device: torch.device | str = "cpu") -> Batch:
    """The pairs as one batch, padded to the longest question and the longest answer."""
    questions = [split_text(pair.question) for pair in pairs]
    answers = [(SPECIAL_TOKENS[SOS], *split_text(pair.answer), SPECIAL_TOKENS[EOS]) for pair in pairs]
    src, tgt = encode_pairs(pairs, tokenisers)
    return Batch(pad(src).to(device), pad(tgt).to(device), pad_words(questions), pad_words(answers))


def encode_pairs(pairs: Sequence[Pair], tokenisers: Tokenisers) -> tuple[list[Tensor], list[Tensor]]:
    """The ids of every question and of every answer, unpadded: `words` and `<sos> words <eos>`."""
    src = [torch.tensor(tokenisers.src.encode(pair.question)) for pair in pairs]
    tgt = [torch.tensor([SOS, *tokenisers.tgt.encode(pair.answer), EOS]) for pair in pairs]
    return src, tgt


def group_by_length(lengths: Sequence[tuple[int, int]], batch: int, seed: str) -> Iterator[list[int]]:
    """The numbers of all pairs in batches of similar answer and question length, in an order that `seed` alone decides.

    Pairs of equal length are shuffled before they are cut into batches, and the batches after, so that no two epochs
    are alike though little is padded.
    """
    chance = Random(seed)  # noqa: S311 - nothing secret
    order = list(range(len(lengths)))
    chance.shuffle(order)
    order.sort(key=lambda number: (lengths[number][1], lengths[number][0]))
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]
    chance.shuffle(batches)
    yield from batches


def pad(rows: Sequence[Tensor]) -> Tensor:
    """Rows of ids as one tensor (batch, longest), filled up with padding."""
    return pad_sequence(list(rows), batch_first=True, padding_value=PAD)


def pad_words(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Rows of words, filled up with `<pad>` to the longest."""
    longest = max(len(row) for row in rows)
    return tuple(row + (SPECIAL_TOKENS[PAD],) * (longest - len(row)) for row in rows)
