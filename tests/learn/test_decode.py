"""Greedy answers."""

import pytest
import torch
from small_runs import PAIRS, finish_small

from xray.config import EOS
from xray.data.batches import encode_pairs, pad
from xray.learn.answers.decode import answer_all, decode_greedily, guess_words
from xray.learn.runs.load import load_run


@pytest.fixture(scope="module")
def chatbot(tmp_path_factory):
    return load_run(finish_small(tmp_path_factory.mktemp("run"), lessons={"epochs": 19}), "cpu")


@pytest.fixture(scope="module")
def questions(chatbot):
    return encode_pairs(PAIRS, chatbot.tokenisers)[0]


def test_answers_in_a_batch_are_those_one_by_one(chatbot, questions):
    alone = [decode_greedily(chatbot.model, question[None])[0] for question in questions]
    assert decode_greedily(chatbot.model, pad(questions)) == alone


def test_the_size_of_a_batch_changes_no_answer(chatbot, questions):
    device = torch.device("cpu")
    assert answer_all(chatbot.model, questions, device, batch=3) == answer_all(chatbot.model, questions, device)


def test_answers_are_cut_at_the_length_asked_for(chatbot, questions):
    assert max(len(ids) for ids in answer_all(chatbot.model, questions, torch.device("cpu"), longest=2)) <= 2


def test_answers_hold_no_end_sign(chatbot, questions):
    answers = answer_all(chatbot.model, questions, torch.device("cpu"))

    assert any(answers)
    assert all(EOS not in ids for ids in answers)


def test_the_first_guess_of_each_turn_is_the_word_said(chatbot, questions):
    said = decode_greedily(chatbot.model, questions[3][None])[0]
    guesses = guess_words(chatbot.model, questions[3][None])
    assert tuple(guess.ids[0] for guess in guesses)[: len(said)] == said


def test_guesses_are_probabilities_that_fall(chatbot, questions):
    guess = guess_words(chatbot.model, questions[3][None], rivals=2)[0]
    assert 1 >= guess.probabilities[0] >= guess.probabilities[1] >= guess.probabilities[2] >= 0


def test_decoding_gives_the_model_back_as_it_was(chatbot, questions):
    chatbot.model.train()
    decode_greedily(chatbot.model, questions[0][None])
    was_training = chatbot.model.training
    chatbot.model.eval()
    assert was_training
