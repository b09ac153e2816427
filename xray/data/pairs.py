"""What a corpus consists of: pairs of a question and its answer."""

from dataclasses import dataclass, field

from xray.errors import DataError

POSTER_PAIRS = 8
"""The first pairs of a file are the batch that the poster draws; they are never held out."""

REMEMBERED = 5_000_000
"""Different questions of which it is told whether they have more than one answer; of those behind them it is not."""


@dataclass(frozen=True)
class Pair:
    """A question and the answer that the chatbot shall learn to give."""

    question: str
    answer: str


@dataclass
class Sieve:
    """Pairs let through one by one, those that cannot be learnt counted.

    A question may have `max_len` tokens; an answer one less, since the decoder reads it behind `<sos>`. Of texts that
    were seen only numbers are kept (`hash`), so that a corpus larger than memory can go through.
    """

    max_len: int
    seen: int = 0
    blank: int = 0
    long: int = 0
    answers: dict[int, int] = field(default_factory=dict)
    torn: set[int] = field(default_factory=set)

    def passes(self, question: tuple[str, ...] | tuple[int, ...], answer: tuple[str, ...] | tuple[int, ...]) -> bool:
        """Whether a pair of these tokens can be learnt."""
        self.seen += 1
        if not question or not answer:
            self.blank += 1
            return False
        if len(question) > self.max_len or len(answer) > self.max_len - 1:
            self.long += 1
            return False
        asked, said = hash(question), hash(answer)
        if len(self.answers) >= REMEMBERED and asked not in self.answers:
            return True
        if self.answers.setdefault(asked, said) != said:
            self.torn.add(asked)
        return True

    def notes(self, name: str) -> tuple[str, ...]:
        """A note for every kind of pair that was left out, or that contradicts another.

        Raises:
            DataError: no pair is left.
        """
        if self.blank + self.long == self.seen:
            raise DataError(
                f"{name} has no pair to train on: of its {self.seen:,} rows, {self.blank:,} have a blank question or "
                f"answer and {self.long:,} are longer than {self.max_len} tokens. Add pairs, or raise --max-len."
            )
        notes = []
        if self.blank:
            notes.append(f"{self.blank:,} of {self.seen:,} rows have a blank question or answer: left out")
        if self.long:
            notes.append(
                f"{self.long:,} of {self.seen:,} pairs are longer than {self.max_len} tokens "
                f"(answers: {self.max_len - 1} and <sos>): left out"
            )
        if self.torn:
            torn = len(self.torn)
            notes.append(f"{torn:,} {'question has' if torn == 1 else 'questions have'} more than one answer: all kept")
        return tuple(notes)
