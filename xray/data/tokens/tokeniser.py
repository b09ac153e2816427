"""Text cut into tokens, tokens turned into ids and back; here the tokens are words, in `pieces.py` parts of words."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import NFC, Lowercase, Replace
from tokenizers.normalizers import Sequence as Normalisers
from tokenizers.pre_tokenizers import Split

from xray.config import SPECIAL_TOKENS, UNK, TokeniserKind
from xray.errors import RunError

IDEOGRAPH, KATAKANA = r"\p{Han}\p{Hiragana}", r"\p{Katakana}\x{30fc}"
LETTER = rf"[\w&&[^{IDEOGRAPH}{KATAKANA}]]"
WORD = rf"{LETTER}+(?:['\x{{200c}}\x{{200d}}]{LETTER}+)*|[{IDEOGRAPH}]|[{KATAKANA}]+"
EMOJI = r"[\x{1f1e6}-\x{1f1ff}]{2}|[^\w\s](?:[\x{fe0f}\x{20e3}\x{1f3fb}-\x{1f3ff}]|\x{200d}[^\w\s])*"
TOKEN = f"{WORD}|{EMOJI}"
"""A word keeps its inner apostrophes; every other mark stands alone, an emoji of several characters as one mark.

Chinese and Japanese have no spaces: there each character is a word, and so is a run of katakana.
"""

UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Burmese and Khmer: written without spaces too, and only a dictionary tells their words."""

APOSTROPHES = "[\u2019\u02bc]"
INVISIBLE = r"[\x{00}-\x{1f}\x{7f}-\x{9f}\x{061c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{feff}]"


class Tokeniser(ABC):
    """A vocabulary, the special tokens first, and the rule that cuts text.

    The special tokens are places in the vocabulary, never matched in text: whoever types `<pad>` gets `<`, `pad`, `>`.
    """

    kind: TokeniserKind

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.id_of_word: dict[str, int] = tokenizer.get_vocab()
        self.word_of_id = {number: word for word, number in self.id_of_word.items()}

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The tokeniser that `to_json` gave.

        Raises:
            RunError: the text is something else.
        """
        try:
            tokeniser = cls(Tokenizer.from_str(text))
        except Exception as error:  # tokenizers raises plain Exception
            raise RunError(f"the tokeniser is damaged: {str(error).splitlines()[0]}.") from error
        if [tokeniser.word_of_id.get(number) for number in range(len(SPECIAL_TOKENS))] != list(SPECIAL_TOKENS):
            raise RunError(f"the tokeniser is damaged: its first words are not {' '.join(SPECIAL_TOKENS)}.")
        return tokeniser

    def to_json(self) -> str:
        """The tokeniser as the `tokenizers` library writes it."""
        return self.tokenizer.to_str(pretty=True)

    @property
    def vocab(self) -> int:
        """How many ids there are, the special tokens' included."""
        return len(self.id_of_word)

    def encode(self, text: str) -> tuple[int, ...]:
        """The id of each token of a text; one that is not in the vocabulary gets that of `<unk>`."""
        return tuple(self.tokenizer.encode(mend(text), add_special_tokens=False).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, on all cores."""
        encoded = self.tokenizer.encode_batch_fast([mend(text) for text in texts], add_special_tokens=False)
        return [one.ids for one in encoded]

    def words(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The token of each id, special tokens included."""
        return tuple(self.word_of_id.get(number, SPECIAL_TOKENS[UNK]) for number in ids)

    @abstractmethod
    def split(self, text: str) -> tuple[str, ...]:
        """The tokens of a text as they are spelt; one that is not in the vocabulary too."""


class WordTokeniser(Tokeniser):
    """A vocabulary of whole words, most frequent first behind the special tokens."""

    kind: TokeniserKind = "word"

    @classmethod
    def learn(cls, texts: Iterable[str], limit: int, min_frequency: int = 1) -> "WordTokeniser":
        """The most frequent words in `texts`, special tokens included, at most `limit` in all."""
        counts = Counter(word for text in texts for word in split_text(text))
        return cls.most_frequent(counts.items(), limit, min_frequency)

    @classmethod
    def most_frequent(cls, counts: Iterable[tuple[str, int]], limit: int, min_frequency: int = 1) -> "WordTokeniser":
        """The most frequent words of those counted; of equally frequent ones those first in the alphabet."""
        enough = sorted((-count, word) for word, count in counts if count >= max(1, min_frequency))
        words = [*SPECIAL_TOKENS, *(word for _, word in enough)][:limit]
        return cls(bare_tokenizer({word: number for number, word in enumerate(words)}))

    def split(self, text: str) -> tuple[str, ...]:
        whole = self.tokenizer.normalizer.normalize_str(mend(text))
        return tuple(word for word, _ in self.tokenizer.pre_tokenizer.pre_tokenize_str(whole))


def bare_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    """A tokenizer without a trace of special tokens in its rules."""
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNK]))
    tokenizer.normalizer = NORMALISER
    tokenizer.pre_tokenizer = SPLITTER
    return tokenizer


TIDIER = Normalisers([NFC(), Replace(Regex(INVISIBLE), " "), Replace(Regex(APOSTROPHES), "'")])
NORMALISER = Normalisers([TIDIER, Lowercase()])
SPLITTER = Split(Regex(TOKEN), "removed", invert=True)


def split_text(text: str) -> tuple[str, ...]:
    """The words of a text, case folded."""
    return tuple(word for word, _ in SPLITTER.pre_tokenize_str(NORMALISER.normalize_str(mend(text))))


def split_as_written(text: str) -> tuple[tuple[str, bool], ...]:
    """The words of a text in their own case, each with whether it follows the one before it without a space."""
    tidy = TIDIER.normalize_str(mend(text))
    found, end = [], -1
    for word, (first, last) in SPLITTER.pre_tokenize_str(tidy):
        found.append((word, first == end))
        end = last
    return tuple(found)


def mend(text: str) -> str:
    """The text with half characters, which a wrongly decoded argument can hold, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
