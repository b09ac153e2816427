"""What a corpus consists of: pairs of a question and its answer."""

from dataclasses import dataclass

POSTER_PAIRS, MOST_POSTER_PAIRS = 8, 64
"""So many first pairs of a file are never held out; the poster draws a batch, or as much of it as the second number."""


@dataclass(frozen=True)
class Pair:
    """A question and the answer that the chatbot shall learn to give."""

    question: str
    answer: str
