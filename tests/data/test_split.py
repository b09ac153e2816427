"""Pairs held out to measure on."""

from collections import Counter

import pytest
from small_runs import PAIRS, write_pairs

from xray.config import TextConfig
from xray.data.corpus.held_out import choose_held_out
from xray.data.corpus.prepare import prepare_corpus
from xray.data.corpus.stored import StoredCorpus
from xray.data.pairs import Pair
from xray.data.reading.origin import as_origin
from xray.data.stages import Stage
from xray.data.tokens.tokeniser import split_text

MANY = PAIRS + tuple(
    Pair(f"Is {word} {size} {number}?", "Yes, very.")
    for word in ("space", "light")
    for size in ("big", "far")
    for number in range(15)
)
LONG_AND_SHORT = tuple(
    Pair(f"what is {n % 40} and {n % 39} ?", " ".join(["far away"] * (1 + n % 5))) for n in range(1000)
)


@pytest.fixture
def choose(tmp_path):
    """Pairs held out of those given."""

    def store_and_choose(pairs, share, seed):
        origin = as_origin(write_pairs(tmp_path / "pairs.csv", pairs))
        prepare_corpus(origin, TextConfig(), "none", 40, tmp_path / "corpus.arrow")
        return choose_held_out(StoredCorpus(tmp_path / "corpus.arrow"), share, seed)

    return store_and_choose


def test_the_poster_is_never_held_out(choose):
    assert min(choose(MANY, 0.9, 7)) >= 8


def test_no_more_than_the_share_is_held_out(choose):
    assert len(choose(MANY, 0.1, 7)) == 7


def test_words_of_held_out_pairs_are_all_taught(choose):
    held_out = set(choose(MANY, 0.9, 7))
    taught = {word for number, pair in enumerate(MANY) if number not in held_out for word in split_text(pair.question)}
    assert {word for number in held_out for word in split_text(MANY[number].question)} <= taught


def test_the_seed_decides_who_is_held_out(choose):
    assert choose(MANY, 0.1, 7) == choose(MANY, 0.1, 7) != choose(MANY, 0.1, -7)


def test_the_choice_is_told_to_its_end(choose, tmp_path):
    told = []
    choose(MANY, 0.1, 7)
    choose_held_out(StoredCorpus(tmp_path / "corpus.arrow"), 0.1, 7, told.append)
    assert told[-1] == Stage("choosing pairs to hold out", len(MANY) - 8, len(MANY) - 8)


def test_few_pairs_leave_none_to_hold_out(choose):
    assert choose(PAIRS[:1], 0.5, 7) == ()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("seed", [0, 7])
def test_held_out_pairs_come_from_all_lengths_alike(choose, share, seed):
    held_out = choose(LONG_AND_SHORT, share, seed)
    lengths = Counter(len(split_text(LONG_AND_SHORT[number].answer)) for number in held_out)
    assert len(held_out) == 1000 * share
    assert all(abs(lengths[length] - 200 * share) <= 1 for length in (2, 4, 6, 8, 10))


def test_pairs_with_rare_words_do_not_make_the_held_out_ones_short(choose):
    pairs = tuple(
        Pair(f"{pair.question} w{number}", pair.answer) if number % 5 == 4 else pair
        for number, pair in enumerate(LONG_AND_SHORT)
    )
    lengths = Counter(len(split_text(pairs[number].answer)) for number in choose(pairs, 0.1, 7))
    assert lengths[10] == 0
    assert max(lengths.values()) - min(lengths[length] for length in (2, 4, 6, 8)) <= 20


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_question_never_stands_on_both_sides(choose, seed):
    pairs = PAIRS[:8] + tuple(
        Pair(f"What is {n % 60} and {n % 60}{'!' * (n % 7 == 0)}?", f"It is {n % 3}.") for n in range(400)
    )
    held_out = set(choose(pairs, 0.3, seed))
    asked = [split_text(pair.question) for pair in pairs]
    taught = {words for number, words in enumerate(asked) if number not in held_out}
    assert 100 <= len(held_out) <= 122
    assert not taught & {asked[number] for number in held_out}


def test_a_question_of_the_poster_is_held_out_nowhere(choose):
    pairs = PAIRS + PAIRS
    held_out = choose(pairs, 0.9, 7)
    assert not {pair.question for pair in PAIRS[:8]} & {pairs[number].question for number in held_out}
