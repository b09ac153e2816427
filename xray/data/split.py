"""Which pairs are learnt, and which are held out to measure on."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from xray.data.pairs import POSTER_PAIRS, Pair
from xray.data.tokeniser import split_text

LOOKED_THROUGH = 100_000
"""Up to this many pairs it is looked at every word."""


def choose_held_out(pairs: Sequence[Pair], share: float, seed: int) -> tuple[int, ...]:
    """The numbers of the pairs to hold out, in order: at most `share` of all, by chance, none of the poster's.

    A pair with a word that no other has stays in training: nothing is measured by asking for words never taught. In a
    corpus of more than 100,000 pairs that is left to chance.
    """
    wanted = int(len(pairs) * share)
    if not wanted:
        return ()
    if len(pairs) > LOOKED_THROUGH:
        chance = Random(seed)  # noqa: S311 - nothing secret
        return tuple(sorted(chance.sample(range(POSTER_PAIRS, len(pairs)), min(wanted, len(pairs) - POSTER_PAIRS))))
    words = [
        {("question", word) for word in split_text(pair.question)}
        | {("answer", word) for word in split_text(pair.answer)}
        for pair in pairs
    ]
    left = Counter(word for several in words for word in several)
    candidates = list(range(POSTER_PAIRS, len(pairs)))
    Random(seed).shuffle(candidates)  # noqa: S311 - nothing secret
    chosen: list[int] = []
    for number in candidates:
        if len(chosen) == wanted:
            break
        if all(left[word] > 1 for word in words[number]):
            left.subtract(words[number])
            chosen.append(number)
    return tuple(sorted(chosen))
