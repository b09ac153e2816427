"""Vocabularies of pieces of words, for corpora with more words than a model can bear: BPE and Unigram.

A piece that begins a word begins with "▁", so that the text comes back exactly by joining them; marks stand alone.
"""

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.decoders import Metaspace as JoinPieces
from tokenizers.models import BPE, Unigram
from tokenizers.normalizers import Replace, Strip
from tokenizers.normalizers import Sequence as Normalisers
from tokenizers.pre_tokenizers import Metaspace, Punctuation
from tokenizers.pre_tokenizers import Sequence as Splitters
from tokenizers.trainers import BpeTrainer, UnigramTrainer

from xray.config import SPECIAL_TOKENS, UNK, TokeniserKind
from xray.data.tokens.tokeniser import TIDIER, Tokeniser, mend
from xray.errors import DataError, XRayError
from xray.text import show_controls

NORMALISER = Normalisers([TIDIER, Replace(Regex(r"\s+"), " "), Strip()])
SPLITTER = Splitters([Metaspace(), Punctuation()])


class PieceTokeniser(Tokeniser):
    """A vocabulary of pieces; unlike words they keep their capitals, and almost no word is unknown."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.kind: TokeniserKind = "bpe" if isinstance(tokenizer.model, BPE) else "unigram"

    @classmethod
    def learn(
        cls, kind: TokeniserKind, texts: Iterable[str | list[str]], limit: int, min_frequency: int = 1
    ) -> "PieceTokeniser":
        """The pieces that spell `texts` best, special tokens included, at most `limit` in all.

        Raises:
            DataError: pieces cannot be learnt from these texts, or not so few.
        """
        options: dict[str, Any] = {"vocab_size": limit, "special_tokens": list(SPECIAL_TOKENS), "show_progress": False}
        trainer: BpeTrainer | UnigramTrainer
        if kind == "bpe":
            learner = Tokenizer(BPE(unk_token=SPECIAL_TOKENS[UNK]))
            trainer = BpeTrainer(min_frequency=min_frequency, **options)
        else:
            learner = Tokenizer(Unigram())
            trainer = UnigramTrainer(unk_token=SPECIAL_TOKENS[UNK], **options)
        learner.normalizer, learner.pre_tokenizer, learner.decoder = NORMALISER, SPLITTER, JoinPieces()
        try:
            learner.train_from_iterator(texts, trainer)
            return cls(without_matching(learner))
        except XRayError:
            raise
        except Exception as error:  # tokenizers has no class of its own for what it refuses
            reason = show_controls(" ".join(str(error).split())).rstrip(".")
            raise DataError(
                f"no {kind} vocabulary of {limit:,} pieces can be learnt from these texts: {reason}. "
                "Allow more pieces, or give more text."
            ) from error

    def split(self, text: str) -> tuple[str, ...]:
        mended = mend(text)
        encoded = self.tokenizer.encode(mended, add_special_tokens=False)
        spans = zip(encoded.ids, encoded.tokens, encoded.offsets, strict=True)
        return tuple(mended[first:last] if number == UNK else token for number, token, (first, last) in spans)


def without_matching(learner: Tokenizer) -> Tokenizer:
    """The same tokenizer with the special tokens in its vocabulary, but not in the rules that cut text."""
    parts = json.loads(learner.to_str())
    parts["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(parts))
