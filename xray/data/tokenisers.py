"""The two vocabularies of a chatbot, and the spelling of its answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.config import Sharing
from xray.data.pairs import Pair
from xray.data.spelling import Spelling
from xray.data.tokeniser import WordTokeniser, split_text

EVERY_WORD = 1_000_000
"""The limit of a vocabulary without a limit."""


@dataclass(frozen=True)
class Tokenisers:
    """Questions are read with `src`, answers with `tgt`, which are one and the same if the vocabulary is shared."""

    src: WordTokeniser
    tgt: WordTokeniser
    spelling: Spelling

    @classmethod
    def learn(cls, pairs: Sequence[Pair], tgt_limit: int = 950, sharing: Sharing = "none") -> "Tokenisers":
        """The vocabularies of a corpus: all words of the questions, the most frequent words of the answers.

        With `sharing="all"` there is one for both, without a limit.
        """
        questions, answers = [pair.question for pair in pairs], [pair.answer for pair in pairs]
        spelling = Spelling.learn(answers)
        if sharing == "all":
            both = WordTokeniser.learn(questions + answers, EVERY_WORD)
            return cls(both, both, spelling)
        return cls(WordTokeniser.learn(questions, EVERY_WORD), WordTokeniser.learn(answers, tgt_limit), spelling)

    def count_unknown_answer_words(self, pairs: Sequence[Pair]) -> int:
        """How many different words of the answers found no place in the vocabulary."""
        words = {word for pair in pairs for word in split_text(pair.answer)}
        return len(words - self.tgt.id_of_word.keys())
