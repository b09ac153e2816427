"""Scores of answers, by torchmetrics."""

import pytest
from small_runs import PAIRS, finish_small

from xray.data.pairs import Pair
from xray.learn.answers.scores import score_answers
from xray.learn.runs.load import load_run


@pytest.fixture(scope="module")
def chatbot(tmp_path_factory):
    pytest.importorskip("torchmetrics", reason="the extra scores is not installed")
    lessons = {"epochs": 60, "batch": 5, "learning_rate": 0.01, "valid_share": 0.0}
    return load_run(finish_small(tmp_path_factory.mktemp("run"), lessons=lessons), "cpu")


def test_an_answer_that_is_right_has_no_errors(chatbot):
    scores = score_answers(chatbot, PAIRS[1:2])
    assert (scores.letters, scores.words, scores.bleu) == (0.0, 0.0, pytest.approx(100.0))


def test_a_wrong_word_counts_among_the_words(chatbot):
    wanted = chatbot.answer(PAIRS[1].question).split()
    wrong = [Pair(PAIRS[1].question, " ".join(["nobody", *wanted[1:]]))]
    assert score_answers(chatbot, wrong).words == pytest.approx(1 / len(wanted))
