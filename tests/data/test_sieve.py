"""Which pairs can be learnt, and what is said of the others."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import pyarrow
import pytest

from xray.data.corpus.cutting import Cutter, WordNumbers
from xray.data.corpus.sieve import Sieve
from xray.data.pairs import Pair
from xray.errors import DataError

GOOD = Pair("a b c", "d e")


class Sifted(NamedTuple):
    pairs: tuple
    notes: tuple


def sift(*pairs, max_len=5):
    sieve, cut = Sieve(max_len, Path(tempfile.gettempdir())), Cutter(WordNumbers().cut)
    asked = cut(pyarrow.array([pair.question for pair in pairs]))
    said = cut(pyarrow.array([pair.answer for pair in pairs]))
    kept = sieve.sift(asked, said)
    return Sifted(tuple(pair for pair, passes in zip(pairs, kept, strict=True) if passes), sieve.notes("p.csv"))


def test_good_pairs_are_kept_without_a_word():
    corpus = sift(GOOD, Pair("x", "y"))
    assert (corpus.pairs, corpus.notes) == ((GOOD, Pair("x", "y")), ())


def test_blank_pairs_are_counted_and_left_out():
    corpus = sift(GOOD, Pair(" ", "y"), Pair("x", ""))
    assert (corpus.pairs, corpus.notes) == ((GOOD,), ("2 of 3 rows have a blank question or answer: left out",))


def test_long_pairs_are_counted_and_left_out():
    corpus = sift(GOOD, Pair("1 2 3 4 5 6", "y"), Pair("x", "1 2 3 4 5"))
    assert corpus.pairs == (GOOD,)
    assert corpus.notes == ("2 of 3 pairs are longer than 5 tokens (answers: 4 and <sos>): left out",)


def test_a_pair_of_exactly_the_limit_is_kept():
    assert sift(Pair("1 2 3 4 5", "1 2 3 4")).notes == ()


def test_contradicting_answers_are_counted_and_kept():
    corpus = sift(GOOD, Pair("a  b c", "f"), Pair("x", "y"), Pair("x", "y"))
    assert (len(corpus.pairs), corpus.notes) == (4, ("1 question has more than one answer: all kept",))


def test_a_corpus_without_a_learnable_pair_is_refused():
    with pytest.raises(
        DataError, match=r"^p\.csv has no pair to train on: of its 2 rows, 1 have a blank .* 1 are longer"
    ):
        sift(Pair("", "y"), Pair("1 2 3 4 5 6", "y"))
