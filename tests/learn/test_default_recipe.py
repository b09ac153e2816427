"""The promise of the README: a minute of training, and the chatbot knows its films by heart."""

import pytest
from small_runs import train_movie_chatbot

from xray.learn.measure import count_right_answers
from xray.learn.run import load_run


@pytest.mark.slow
def test_the_default_recipe_teaches_the_movies_word_for_word(tmp_path):
    taught = train_movie_chatbot(tmp_path / "movie_qa")
    chatbot = load_run(tmp_path / "movie_qa", "cpu")
    right, asked = count_right_answers(chatbot, taught)
    assert right / asked >= 0.95
    assert chatbot.answer("What's your favourite character in The Expanse series?") == "Naomi Nagata definitely!"
