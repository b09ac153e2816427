"""Scripts without spaces: where words cannot be told apart, training says so."""

import pytest

from xray.config import TextConfig
from xray.data.pairs import Pair
from xray.data.tokens.tokenisers import Tokenisers

THAI = [Pair("คุณเป็นใคร", "ฉันเป็นหุ่นยนต์"), Pair("คุณชอบดนตรีไหม", "ฉันชอบดนตรีมาก")]


def test_clauses_that_became_one_word_are_counted_with_what_to_do():
    assert Tokenisers.learn(THAI).note == (
        "4 of 4 words are whole clauses: their script has no spaces between words. "
        "--tokeniser bpe cuts them into pieces"
    )


@pytest.mark.parametrize(
    "pairs",
    [
        [Pair("who are you", "a robot"), Pair("你是谁？", "我是机器人。"), Pair("어디 있니", "여기 있어")],
        [Pair(" ".join(f"word{n}" for n in range(60)), "x"), *THAI[:1]],
    ],
)
def test_words_that_can_be_told_apart_need_no_note(pairs):
    assert Tokenisers.learn(pairs).note == ""


def test_pieces_need_no_note():
    assert Tokenisers.learn(THAI, text=TextConfig(tokeniser="bpe")).note == ""
