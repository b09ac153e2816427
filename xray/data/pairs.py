"""What a corpus consists of: pairs of a question and its answer."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xray.errors import DataError

POSTER_PAIRS = 8
"""The first pairs of a file are the batch that the poster draws; they are never held out."""


@dataclass(frozen=True)
class Pair:
    """A question and the answer that the chatbot shall learn to give."""

    question: str
    answer: str


@dataclass(frozen=True)
class Corpus:
    """The pairs to train on, and what there is to say about those that were left out or contradict each other."""

    name: str
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()


def sift_pairs(name: str, pairs: Sequence[Pair], split: Callable[[str], Sequence[str]], max_len: int) -> Corpus:
    """The pairs that can be learnt, in their order, with a note for every kind that cannot or that contradict.

    A question may have `max_len` tokens; an answer one less, since the decoder reads it behind `<sos>`.

    Raises:
        DataError: no pair is left.
    """
    kept, blank, long = [], 0, 0
    answers: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for pair in pairs:
        question, answer = tuple(split(pair.question)), tuple(split(pair.answer))
        if not question or not answer:
            blank += 1
        elif len(question) > max_len or len(answer) > max_len - 1:
            long += 1
        else:
            kept.append(pair)
            answers[question].add(answer)
    if not kept:
        raise DataError(
            f"{name} has no pair to train on: of its {len(pairs):,} rows, {blank:,} have a blank question or answer "
            f"and {long:,} are longer than {max_len} tokens. Add pairs, or raise --max-len."
        )
    torn = sum(len(different) > 1 for different in answers.values())
    notes = []
    if blank:
        notes.append(f"{blank:,} of {len(pairs):,} rows have a blank question or answer: left out")
    if long:
        notes.append(
            f"{long:,} of {len(pairs):,} pairs are longer than {max_len} tokens "
            f"(answers: {max_len - 1} and <sos>): left out"
        )
    if torn:
        notes.append(f"{torn:,} {'question has' if torn == 1 else 'questions have'} more than one answer: all kept")
    return Corpus(name, tuple(kept), tuple(notes))
