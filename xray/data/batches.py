"""Pairs side by side as rectangles of ids, the short ones filled up with padding."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import overload

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from xray.config import EOS, PAD, SOS, SPECIAL_TOKENS
from xray.data.pairs import Pair
from xray.data.rows_on_disk import AT_A_TIME, make_rows, shuffle_rows
from xray.data.tokens.tokenisers import Tokenisers


@dataclass(frozen=True)
class Batch:
    """Questions and answers as ids, and as the words that go in: one that is unknown has id 0, and is `<unk>`.

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
    src, tgt = encode_pairs(pairs, tokenisers)
    questions = [tokenisers.src.words(ids.tolist()) for ids in src]
    answers = [tokenisers.tgt.words(ids.tolist()) for ids in tgt]
    return Batch(pad(src).to(device), pad(tgt).to(device), pad_words(questions), pad_words(answers))


def encode_pairs(pairs: Sequence[Pair], tokenisers: Tokenisers) -> tuple[list[Tensor], list[Tensor]]:
    """The ids of every question and of every answer, unpadded: `words` and `<sos> words <eos>`."""
    src = [torch.tensor(tokenisers.src.encode(pair.question)) for pair in pairs]
    tgt = [torch.tensor([SOS, *tokenisers.tgt.encode(pair.answer), EOS]) for pair in pairs]
    return src, tgt


class Batches(Sequence[Tensor]):
    """Numbers of pairs in an order, cut into batches that come in another order; nothing is copied."""

    def __init__(self, order: Tensor, edges: Tensor, places: Tensor) -> None:
        self.order = order
        self.edges = edges
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, number: int) -> Tensor: ...
    @overload
    def __getitem__(self, number: slice) -> list[Tensor]: ...
    def __getitem__(self, number: int | slice) -> Tensor | list[Tensor]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        place = int(self.places[number])
        return self.order[int(self.edges[place]) : int(self.edges[place + 1])]


def group_by_length(lengths: Tensor, batch: int, seed: str, tokens: int = 0, folder: Path | None = None) -> Batches:
    """The numbers of all pairs in batches of similar answer and question length, in an order that `seed` alone decides.

    With `tokens` a batch holds as many pairs as fill that many places on its longer side, padding included, and at
    least one. Pairs of equal length are shuffled before they are cut into batches, and the batches after, so that no
    two epochs are alike though little is padded. Of very many pairs the order lies on disk, in `folder`.

    Shapes:
        lengths: (pairs, 2)    of the question and of the answer
    """
    chance = torch.Generator().manual_seed(int.from_bytes(sha256(seed.encode()).digest()[:7]))
    order = sort_by_length(shuffle_rows(len(lengths), chance, folder), lengths, folder)
    if tokens:
        edges = torch.tensor([0, *fill_with_tokens(longer_sides(lengths, order), tokens)]).cumsum(0)
    else:
        edges = make_rows((ceil(len(order) / batch) + 1,), torch.int64, folder)
        torch.arange(0, len(order), batch, out=edges[:-1])
        edges[-1] = len(order)
    return Batches(order, edges, shuffle_rows(len(edges) - 1, chance, folder, torch.int64))


def sort_by_length(order: Tensor, lengths: Tensor, folder: Path | None = None, by_question: bool = True) -> Tensor:
    """Numbers of pairs by the lengths of their answers, then of their questions; among equals they stay in order.

    Some lengths at a time, so that little memory is taken up however many pairs there are.
    """
    if not len(order):
        return order
    blocks = torch.split(order, AT_A_TIME)
    counts = sum(lengths[block, 1].long().bincount(minlength=int(lengths[:, 1].max()) + 1) for block in blocks)
    part_of = (counts.cumsum(0) - 1) // AT_A_TIME  # type: ignore[union-attr]  # of each answer length
    wide, done = int(lengths[:, 0].max()) + 1, 0
    sorted_order = make_rows(tuple(order.shape), order.dtype, folder)
    for part in part_of.unique().tolist():
        found = torch.cat([block[part_of[lengths[block, 1].long()] == part] for block in blocks])
        keys = lengths[found, 1].long() * wide + (lengths[found, 0] if by_question else 0)
        sorted_order[done : done + len(found)] = found[keys.argsort(stable=True)]
        done += len(found)
    return sorted_order


def count_batches(lengths: Tensor, batch: int, tokens: int = 0, folder: Path | None = None) -> int:
    """How many batches `group_by_length` makes, whatever the seed: pairs of equal length are alike to it."""
    return len(group_by_length(lengths, batch, "any", tokens, folder)) if tokens else ceil(len(lengths) / batch)


def longer_sides(lengths: Tensor, order: Tensor) -> Iterator[int]:
    """The length of the longer text of each pair, in this order."""
    for block in torch.split(order, AT_A_TIME):
        yield from lengths[block].amax(dim=1).tolist()


def fill_with_tokens(lengths: Iterable[int], tokens: int) -> list[int]:
    """How many pairs each batch takes, of pairs in order, by the lengths of their longer texts."""
    sizes, held, longest = [], 0, 0
    for length in lengths:
        longest_then = max(longest, length)
        if held and longest_then * (held + 1) > tokens:
            sizes.append(held)
            held, longest_then = 0, length
        held, longest = held + 1, longest_then
    return [*sizes, held] if held else sizes


def pad(rows: Sequence[Tensor]) -> Tensor:
    """Rows of ids as one tensor (batch, longest), filled up with padding."""
    return pad_sequence(list(rows), batch_first=True, padding_value=PAD)


def pad_words(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Rows of words, filled up with `<pad>` to the longest."""
    longest = max(len(row) for row in rows)
    return tuple(row + (SPECIAL_TOKENS[PAD],) * (longest - len(row)) for row in rows)
