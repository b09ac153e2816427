"""Words put together to a sentence again: capitals, and no space before a full stop.

The model says words in small letters with marks apart. How a corpus writes them is learnt once: the most
frequent way of each word, and of each word among its neighbours where that differs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xray.data.tokens.tokeniser import split_as_written

Key = TypeVar("Key")
Way = TypeVar("Way", str, bool)

CLOSING = frozenset(".,!?;:)]}%…")
OPENING = frozenset("([{¿¡")
SENTENCE_END = frozenset(".!?…")
IDEOGRAPHIC = re.compile("[\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]")
"""Chinese and Japanese characters and marks, which have no spaces around them."""


@dataclass(frozen=True)
class Spelling:
    """How answers are written: `words` by themselves, `among` by "left word right" where the neighbours matter.

    `joined` says of "left right" whether they stand without a space between them. Each table holds only what is not
    plain: small letters, a capital where a sentence begins, closing marks joined to the word before them, no spaces in
    Chinese and Japanese.
    """

    words: dict[str, str] = field(default_factory=dict)
    among: dict[str, str] = field(default_factory=dict)
    joined: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def learn(cls, texts: Iterable[str]) -> "Spelling":
        """The spelling of a corpus; the first word of a sentence counts only if it never stands elsewhere."""
        inside: Counter[tuple[str, str]] = Counter()
        beginning: Counter[tuple[str, str]] = Counter()
        neighbours: Counter[tuple[tuple[str, str, str], str]] = Counter()
        joints: Counter[tuple[tuple[str, str], bool]] = Counter()
        for text in texts:
            written = split_as_written(text)
            folded = ["", *(surface.lower() for surface, _ in written), ""]
            for place, (surface, joins) in enumerate(written):
                left, word, right = folded[place : place + 3]
                (beginning if begins_sentence(left) else inside)[word, surface] += 1
                neighbours[(left, word, right), surface] += 1
                if left:
                    joints[(left, word), joins] += 1
        best = most_frequent(beginning) | most_frequent(inside)
        plain = cls({word: surface for word, surface in best.items() if surface != word})
        among, joined = most_frequent(neighbours), most_frequent(joints)
        return cls(
            plain.words,
            {" ".join(key): surface for key, surface in among.items() if surface != plain.spell(*key)},
            {" ".join(key): joins for key, joins in joined.items() if joins != plain.joins(*key)},
        )

    def write(self, words: Sequence[str]) -> str:
        """The words as a sentence."""
        text, framed = "", ["", *words, ""]
        for left, word, right in zip(framed, words, framed[2:], strict=False):
            text += ("" if not left or self.joins(left, word) else " ") + self.spell(left, word, right)
        return text

    def spell(self, left: str, word: str, right: str) -> str:
        """A word as it is written between `left` and `right`; "" is the edge of the answer."""
        known = self.among.get(f"{left} {word} {right}")
        if known is not None:
            return known
        surface = self.words.get(word, word)
        return surface[:1].upper() + surface[1:] if surface == word and begins_sentence(left) else surface

    def joins(self, left: str, word: str) -> bool:
        """Whether `word` follows `left` without a space."""
        known = self.joined.get(f"{left} {word}")
        if known is not None:
            return known
        return word in CLOSING or left in OPENING or any(IDEOGRAPHIC.match(one) for one in (left, word))

    def to_dict(self) -> dict[str, Any]:
        """The three tables, for JSON."""
        return {"words": self.words, "among": self.among, "joined": self.joined}

    @classmethod
    def from_dict(cls, tables: dict[str, Any]) -> "Spelling":
        """The spelling that `to_dict` gave."""
        return cls(dict(tables["words"]), dict(tables["among"]), dict(tables["joined"]))


def begins_sentence(left: str) -> bool:
    """Whether a word behind `left` is the first of its sentence."""
    return not left or left in SENTENCE_END


def most_frequent(counts: "Counter[tuple[Key, Way]]") -> dict[Key, Way]:
    """The way of each key with the highest count; of several, always the same one."""
    best: dict[Key, tuple[int, str, Way]] = {}
    for (key, way), count in counts.items():
        known = best.get(key)
        if known is None or (count, str(way)) > known[:2]:
            best[key] = count, str(way), way
    return {key: way for key, (_, _, way) in best.items()}


@dataclass(frozen=True)
class PieceSpelling:
    """How pieces of words become a sentence: they hold their capitals and, as "▁", the spaces before them."""

    def write(self, words: Sequence[str]) -> str:
        """The pieces as a sentence."""
        return "".join(words).replace("▁", " ").strip()

    def to_dict(self) -> dict[str, Any]:
        """Nothing that is not plain."""
        return {}
