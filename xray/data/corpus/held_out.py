"""Which pairs are learnt, and which are held out to measure on."""

from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch

from xray.data.batches import sort_by_length
from xray.data.corpus.seals import Alike, Numbers, seals_of
from xray.data.corpus.stored import StoredCorpus
from xray.data.pairs import POSTER_PAIRS
from xray.data.rows_on_disk import AT_A_TIME, make_rows
from xray.data.stages import Stage, Tell, report_nobody

CHOOSING = "choosing pairs to hold out"


def choose_held_out(corpus: StoredCorpus, share: float, seed: int, tell: Tell = report_nobody) -> tuple[int, ...]:
    """The numbers of the pairs to hold out, in order: at most `share` of all, by chance, none of the poster's.

    They come from all lengths of answers alike. Pairs with the same question stay together, so that nothing is measured
    that was taught. A pair with a word that no other has stays in training: nothing is measured by asking for words
    never taught.
    """
    wanted = int(len(corpus) * share)
    if not wanted:
        return ()
    tell(Stage(CHOOSING, 0, 0))
    choice = Choice(corpus, wanted)
    chance = np.random.default_rng([abs(seed), seed < 0])
    numbers = make_rows((max(0, len(corpus) - POSTER_PAIRS),), torch.int32, corpus.folder)
    torch.arange(POSTER_PAIRS, POSTER_PAIRS + len(numbers), out=numbers)
    chance.shuffle(numbers.numpy())
    in_order = sort_by_length(numbers, corpus.lengths, corpus.folder, by_question=False).numpy()
    edges = (number * len(numbers) // wanted for number in range(wanted + 1))
    for first, last in pairwise(edges):  # one from each of as many slices, in the order of lengths
        any(choice.take(number) for number in chance.permutation(in_order[first:last]).tolist())
        tell(Stage(CHOOSING, last, len(numbers)))
    if not choice.is_full:
        chance.shuffle(in_order)
    for first in range(0, len(in_order), AT_A_TIME):
        if choice.is_full:
            break
        for number in in_order[first : first + AT_A_TIME].tolist():
            choice.take(number)
    return tuple(sorted(choice.chosen))


class Choice:
    """Pairs chosen one by one, each with all that have the same question, as long as every word stays taught."""

    def __init__(self, corpus: StoredCorpus, wanted: int) -> None:
        self.corpus = corpus
        self.wanted = wanted
        self.chosen: set[int] = set()
        seals = Numbers(corpus.path.parent, np.uint64)
        for block in corpus.src:
            seals.add(seals_of(*block))
        self.alike = Alike(seals, corpus.path.parent)
        self.left = [count_ids(blocks) for blocks in (corpus.src, corpus.tgt)]

    @property
    def is_full(self) -> bool:
        """Whether as many are chosen as were wanted."""
        return len(self.chosen) >= self.wanted

    def take(self, number: int) -> bool:
        """Choose a pair and its likes if they may be; whether they are now."""
        if number in self.chosen or self.is_full:
            return False
        alike = self.alike.rows(number)
        if alike[0] < POSTER_PAIRS or len(self.chosen) + len(alike) > self.wanted:
            return False
        used = []
        for side, left in zip((self.corpus.src, self.corpus.tgt), self.left, strict=True):
            ids, counts = np.unique(np.concatenate([self.ids(side, one) for one in alike]), return_counts=True)
            if (left[ids] <= counts).any():
                return False
            used.append((left, ids, counts))
        for left, ids, counts in used:
            left[ids] -= counts
        self.chosen.update(alike)
        return True

    def ids(self, side: list[Any], number: int) -> Any:  # noqa: ANN401  # an array
        """The ids of a question or an answer."""
        place, row = self.corpus.find(number)
        ids, starts = side[place]
        return ids[starts[row] : starts[row + 1]]


def count_ids(blocks: list[Any]) -> Any:  # noqa: ANN401  # an array
    """How often each id stands in some rows."""
    most = max(chain((0,), (int(ids.max(initial=0)) for ids, _ in blocks)))
    return sum((np.bincount(ids, minlength=most + 1) for ids, _ in blocks), np.zeros(most + 1, dtype=np.int64))
