"""Pairs held out to measure on."""

from small_runs import PAIRS

from xray.data.pairs import Pair
from xray.data.split import choose_held_out
from xray.data.tokeniser import split_text

MANY = PAIRS + tuple(Pair(f"Is {word} big?", "Yes, very.") for word in ("space", "light") for _ in range(30))


def test_the_poster_is_never_held_out():
    assert min(choose_held_out(MANY, 0.9, 7)) >= 8


def test_no_more_than_the_share_is_held_out():
    assert len(choose_held_out(MANY, 0.1, 7)) == 7


def test_words_of_held_out_pairs_are_all_taught():
    held_out = set(choose_held_out(MANY, 0.9, 7))
    taught = {word for number, pair in enumerate(MANY) if number not in held_out for word in split_text(pair.question)}
    assert {word for number in held_out for word in split_text(MANY[number].question)} <= taught


def test_the_seed_decides_who_is_held_out():
    assert choose_held_out(MANY, 0.1, 7) == choose_held_out(MANY, 0.1, 7) != choose_held_out(MANY, 0.1, 11)


def test_few_pairs_leave_none_to_hold_out():
    assert choose_held_out(PAIRS[:1], 0.5, 7) == ()
