"""The two vocabularies of a chatbot, and the spelling of its answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.config import SPECIAL_TOKENS, Sharing, TextConfig, TokeniserKind
from xray.data.pairs import Pair
from xray.data.tokens.pieces import PieceTokeniser
from xray.data.tokens.spelling import PieceSpelling, Spelling
from xray.data.tokens.tokeniser import UNSPACED, Tokeniser, WordTokeniser, split_text

MANY = 20
"""One word in so many that is a clause is worth a warning."""

EVERY_WORD = 1_000_000
"""The limit of a vocabulary of words without a limit."""

PIECES = 8_000
"""The limit of a vocabulary of pieces without a limit."""

SPELT = 20_000
"""How many answers the spelling is learnt from; more of them would teach it little."""


@dataclass(frozen=True)
class Tokenisers:
    """Questions are read with `src`, answers with `tgt`, which are one and the same if the vocabulary is shared."""

    src: Tokeniser
    tgt: Tokeniser
    spelling: Spelling | PieceSpelling

    @classmethod
    def learn(
        cls, pairs: Sequence[Pair], tgt_limit: int = 950, sharing: Sharing = "none", text: TextConfig | None = None
    ) -> "Tokenisers":
        """The vocabularies of pairs at hand; with `sharing="all"` one for both, of at most `tgt_limit` tokens."""
        text = text or TextConfig(tgt_limit=0 if sharing == "all" else tgt_limit)
        asked, said = [pair.question for pair in pairs], [pair.answer for pair in pairs]
        spelling = Spelling.learn(said[:SPELT]) if text.tokeniser == "word" else PieceSpelling()
        if sharing == "all":
            both = learn_one(text, [*asked, *said], text.tgt_limit)
            return cls(both, both, spelling)
        return cls(learn_one(text, asked, text.src_limit), learn_one(text, said, text.tgt_limit), spelling)

    @property
    def kind(self) -> TokeniserKind:
        """What the tokens are."""
        return self.src.kind

    def said(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The words of an answer, by which it is told whether it is right."""
        if self.kind == "word":
            return self.tgt.words(ids)
        return split_text(self.spelling.write(self.tgt.words(ids)))

    @property
    def note(self) -> str:
        """A warning where words could not be told apart, since their script has no spaces; "" where they could."""
        if self.kind != "word":
            return ""
        words = {*self.src.id_of_word, *self.tgt.id_of_word} - {*SPECIAL_TOKENS}
        clauses = sum(UNSPACED.search(word) is not None for word in words)
        if clauses * MANY < len(words):
            return ""
        return (
            f"{clauses:,} of {len(words):,} words are whole clauses: their script has no spaces between words. "
            "--tokeniser bpe cuts them into pieces"
        )


def learn_one(text: TextConfig, texts: Sequence[str], limit: int) -> Tokeniser:
    """One vocabulary of the wanted kind."""
    if text.tokeniser == "word":
        return WordTokeniser.learn(texts, limit or EVERY_WORD, text.min_frequency)
    return PieceTokeniser.learn(text.tokeniser, texts, limit or PIECES, text.min_frequency)


def tokeniser_from_json(kind: TokeniserKind, text: str) -> Tokeniser:
    """The tokeniser that was kept in a run folder.

    Raises:
        RunError: the text is something else.
    """
    return WordTokeniser.from_json(text) if kind == "word" else PieceTokeniser.from_json(text)
