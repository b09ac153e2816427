"""Answers written as the corpus writes them."""

import pytest

from xray.data.tokens.spelling import Spelling
from xray.data.tokens.tokeniser import split_text

ANSWERS = (
    "Naomi Nagata definitely!",
    "The X-Ray of a blade runner again.",
    "I love Blade Runner. It rains (a lot)!",
    'He said "no", I think.',
    "See The Matrix, the film.",
    "I'm sure... 42.5% sure",
)


@pytest.mark.parametrize("answer", ANSWERS)
def test_known_answers_come_back_as_they_were_written(answer):
    assert Spelling.learn(ANSWERS).write(split_text(answer)) == answer


def test_a_new_sentence_begins_with_a_capital_and_ends_without_a_space():
    assert Spelling.learn(ANSWERS).write(("rain", "of", "nagata", ".", "sure", "!")) == "Rain of Nagata. Sure!"


def test_nothing_is_written_as_nothing():
    assert Spelling().write(()) == ""


def test_a_spelling_survives_its_tables():
    spelling = Spelling.learn(ANSWERS)
    assert Spelling.from_dict(spelling.to_dict()) == spelling


@pytest.mark.parametrize("answer", ["北京在中国。", "我很喜欢AI，你呢？", "ロボットはここです。"])
def test_chinese_and_japanese_are_written_without_spaces(answer):
    assert Spelling().write(split_text(answer)) == answer.replace("AI", "ai")
