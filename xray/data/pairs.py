"""What a corpus consists of: pairs of a question and its answer."""

from dataclasses import dataclass

POSTER_PAIRS = 8
"""The first pairs of a file are the batch that the poster draws; they are never held out."""


@dataclass(frozen=True)
class Pair:
    """A question and the answer that the chatbot shall learn to give."""

    question: str
    answer: str
