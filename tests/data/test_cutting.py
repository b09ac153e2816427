"""Texts cut a column at a time: the same ids as one by one, whatever stands in them."""

from itertools import chain, pairwise

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import PAIRS
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.trainers import WordLevelTrainer
from trust.amount import cases
from trust.mutations import HARD_TEXT

import xray.data.corpus.cutting
from xray.config import SPECIAL_TOKENS
from xray.data.corpus.cutting import Cutter, WordNumbers, frame_rows
from xray.data.corpus.seals import seals_of
from xray.data.tokens.pieces import PieceTokeniser
from xray.data.tokens.tokeniser import NORMALISER, SPLITTER, WordTokeniser, mend, split_text

TEXTS = [pair.answer for pair in PAIRS]
WHOLE = HARD_TEXT.map(mend)


def rows_of(ids, starts):
    return [ids[first:last].tolist() for first, last in pairwise(starts)]


@cases(60)
@given(texts=st.lists(WHOLE, min_size=1, max_size=5))
def test_a_column_is_cut_into_the_words_of_its_texts(texts):
    numbers = WordNumbers()
    rows = rows_of(*Cutter(numbers.cut)(pyarrow.array(texts)))
    words = list(numbers.number_of)
    assert [tuple(words[number] for number in row) for row in rows] == [split_text(text) for text in texts]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_column_is_cut_into_the_pieces_of_its_texts(kind):
    tokeniser = PieceTokeniser.learn(kind, TEXTS * 3, 60)

    @cases(60)
    @given(texts=st.lists(st.one_of(WHOLE, st.sampled_from(TEXTS)), min_size=1, max_size=5))
    def check(texts):
        rows = rows_of(*Cutter(tokeniser.encode_many)(pyarrow.array(texts)))
        assert rows == [list(tokeniser.encode(text)) for text in texts]

    check()


def test_nothing_is_lost_when_the_remembered_runs_are_forgotten(monkeypatch):
    monkeypatch.setattr(xray.data.corpus.cutting, "REMEMBERED", 3)
    numbers = WordNumbers()
    cut = Cutter(numbers.cut)
    rows = [rows_of(*cut(pyarrow.array([text])))[0] for text in TEXTS]
    words = list(numbers.number_of)
    assert [tuple(words[number] for number in row) for row in rows] == [split_text(text) for text in TEXTS]
    assert len(cut.number_of) < 20


def test_a_vocabulary_is_the_one_that_the_trainer_of_tokenizers_learns():
    learner = Tokenizer(WordLevel({}, unk_token="<unk>"))  # no password
    learner.normalizer, learner.pre_tokenizer = NORMALISER, SPLITTER
    trainer = WordLevelTrainer(vocab_size=40, special_tokens=list(SPECIAL_TOKENS), show_progress=False)
    learner.train_from_iterator(TEXTS, trainer)
    assert WordTokeniser.learn(TEXTS, 40).id_of_word == learner.get_vocab()


def test_framed_rows_stand_between_two_ids():
    ids, starts = frame_rows(np.array([5, 6, 7], dtype=np.int32), np.array([0, 2, 2, 3]), 8, 9)
    assert rows_of(ids, starts) == [[8, 5, 6, 9], [8, 9], [8, 7, 9]]


def test_only_equal_rows_have_equal_seals():
    rows = [[1, 2], [2, 1], [1], [], [1, 2], [0, 1, 2], [1, 2, 0]]
    seals = seals_of(np.array([*chain.from_iterable(rows)], dtype=np.int32), np.cumsum([0, *map(len, rows)]))
    assert [seals[0] == seal for seal in seals] == [True, False, False, False, True, False, False]
    assert len(set(seals.tolist())) == 6
